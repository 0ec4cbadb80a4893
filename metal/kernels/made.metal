// The definitions for functions generated for a plan.
#include "zones.metal"
#include "functions.metal"
#include "f8.metal"
#include "adamw.metal"
#include "zone_rows.metal"
