// What the device can do at best, measured where everything else is.

/// args.batch rounds of eight independent products a warp, from registers.
template <class T>
FT_INLINE void multiply_forever(const ft_gpu_args& args) {
  constexpr int products = 8;
  const u32* const in = static_cast<const u32*>(args.tensor[0]);
  float* const out = static_cast<float*>(args.tensor[1]);
  float d[products][4] = {};
  u32 a[4], b[2];
  for (int e = 0; e < 4; ++e) a[e] = in[4 * thread_index() + e];
  for (int e = 0; e < 2; ++e) b[e] = in[512 + 2 * thread_index() + e];
  FT_NO_UNROLL
  for (int round = 0; round < args.batch; ++round) {
    FT_UNROLL
    for (int i = 0; i < products; ++i) mma_16x8x16<T>(d[i], a, b[0], b[1]);
  }
  float sum = 0;
  FT_UNROLL
  for (int i = 0; i < products; ++i) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
  out[block_index() * 128 + thread_index()] = sum;
}
FT_KERNEL(rate_mma_f16, 128) { multiply_forever<f16>(args); }
FT_KERNEL(rate_mma_bf16, 128) { multiply_forever<bf16>(args); }

/// args.batch barriers and nothing else.
FT_KERNEL(rate_barrier, 128) {
  for (int round = 0; round < args.batch; ++round) grid_barrier(args.sync);
}

/// The cost of a launch.
FT_KERNEL(rate_empty, 128) {}
