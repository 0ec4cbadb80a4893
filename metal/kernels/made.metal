// What functions that are made for a plan may use.
#include "zones.metal"
#include "functions.metal"
#include "f8.metal"
#include "adamw.metal"
#include "zone_rows.metal"
