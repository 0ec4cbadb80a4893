// Package models has the families of published models that gomoe opens: what their files say about a
// model, and the model as a function, written with the layers of package nn. A family is one file.
//
// Begin with Open, which reads what a checkpoint is. An architecture that is not known is an error with
// the list of those that are. Of DeepSeek-V4 the layers of experts are there, as DeepSeekV4Experts.
package models
