// What the device can do at best, measured in the process whose other figures are related to it, and what a
// segment asks of it.
#pragma once

#include "block/mask.h"
#include "gpu.h"
#include "plan/fusion_plan.h"
#include "records.h"

namespace fusetune::device_check {

struct Rates {
  double flops = 0;  // a second, of matrix products in registers, f16
  double bytes = 0;  // a second, read and written by a copy
  double gemm = 0;   // flops a second of cuBLASLt's large f16 product; 0: the machine has no cuBLASLt
};

/// Flops a second of a kernel of probes/rates.cu that multiplies in registers, on every multiprocessor.
double matrix_rate(Gpu& gpu, const std::string& symbol);
/// Measures all and records them as `item`.
Rates measure_rates(Gpu& gpu, Records& records, const std::string& item = "at best");

/// Floating-point operations of the products in a segment; a masked pair counts for nothing.
double flops_of(const plan::SegmentVariant& variant, const block::Problem& problem, const block::Mask& mask);

/// A time's rate, and its share of what the device can do where `f16`: of the product rates, and of the
/// larger of two bounds, matrix rate and copy bandwidth (`bytes`: what is read and written at least).
nlohmann::ordered_json shares(const Rates& rates, double microseconds, double flops, double bytes, bool f16);

}  // namespace fusetune::device_check
