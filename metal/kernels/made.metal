// What functions that are made for a plan may use.
#include "zones.metal"
