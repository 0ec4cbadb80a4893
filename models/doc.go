// Package models implements the families of published models that gomoe opens: it reads a model's settings from its
// files and builds the model as a function, using the layers of package nn. Each family has its own file. Package
// checkpoint reads the files, and package generate runs the models.
//
// Begin with Open, which identifies the model of a checkpoint. An unknown architecture is an error listing the
// known ones. For DeepSeek-V4 only the MoE layers are implemented, as DeepSeekV4Experts.
package models
