// What functions that are made for a plan may use.
#include "zones.metal"
#include "functions.metal"
#include "adamw.metal"
#include "zone_rows.metal"
