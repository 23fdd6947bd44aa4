// Internal to lower: how a hand-off cuts a segment into phases, shared by schedules and programs.
#pragma once

#include <vector>

#include "lower/gpu_schedule.h"
#include "lower/program.h"

namespace fusetune::lower {

/// The phases of a variant under a schedule that refuse() accepts.
std::vector<Phase> phases_of(const plan::SegmentVariant& variant, const Schedule& schedule);
/// The first hand-off (barrier, fused, pipeline) that gives the same phases as the schedule's.
HandOff simplest_hand_off(const plan::SegmentVariant& variant, const Schedule& schedule);

/// The same for a GPU.
std::vector<Phase> phases_of(const plan::SegmentVariant& variant, GpuHandOff hand_off);
GpuHandOff simplest_hand_off(const plan::SegmentVariant& variant, GpuHandOff hand_off);

/// The program of phases: what is alive where.
SegmentProgram make_program(const plan::SegmentVariant& variant, std::vector<Phase> phases);

}  // namespace fusetune::lower
