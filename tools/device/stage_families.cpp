// Every kind of generated kernel against the oracle.
#include "cases.h"
#include "judge.h"
#include "stages.h"

namespace fusetune::device_check {
namespace {

void check_family(Judges& judges, Records& records, const FamilyCase& one) {
  for (const block::MaskSpec& mask : one.masks) {
    block::Problem problem = one.problem;
    problem.mask = mask;
    const Verdict verdict = judges.of(problem).check_segment(one.kernel);
    nlohmann::ordered_json fields = {{"schedule", one.kernel.schedule.to_string()},
                                     {"problem", problem.key()}};
    verdict.add_to(fields);
    records.add(one.kernel.variant.to_string() + " " + mask.to_string(), !verdict.wrong, fields);
  }
}

void check_families(Gpu& gpu, Records& records, block::Dtype dtype) {
  Judges judges(gpu);
  int step = 0;
  for (const FamilyCase& one : family_cases(dtype, gpu.target(), gpu.quick()))
    if (records.begin_step(step++)) check_family(judges, records, one);
}

}  // namespace

void check_f16(Gpu& gpu, Records& records) { check_families(gpu, records, block::Dtype::f16); }
void check_bf16(Gpu& gpu, Records& records) { check_families(gpu, records, block::Dtype::bf16); }
void check_f32(Gpu& gpu, Records& records) { check_families(gpu, records, block::Dtype::f32); }

}  // namespace fusetune::device_check
