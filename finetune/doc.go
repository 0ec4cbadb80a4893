// Package finetune trains a published model on texts: adapters beside its weights, which stay as they lie in their files,
// quantised ones too, or all of its weights.
//
// Begin with Run. The command gomoe finetune is one use of it.
package finetune
