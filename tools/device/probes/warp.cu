// What lanes of a warp do together, without shared memory. One warp each.

/// out[k][lane]: the lane's value of `in` moved by shuffle k.
FT_KERNEL(probe_shuffles, 32) {
  const int lane = thread_index();
  const float x = static_cast<const float*>(args.tensor[0])[lane];
  float* const out = static_cast<float*>(args.tensor[1]) + lane;
  for (int k = 0; k < 32; ++k) out[32 * k] = shuffle_xor(x, k);
  for (int k = 0; k < 32; ++k) out[32 * (32 + k)] = shuffle(x, k);             // all from one lane
  for (int k = 0; k < 32; ++k) out[32 * (64 + k)] = shuffle(x, (lane * 7 + k) % 32);  // from another one each
}

/// args.batch products. in: [product][lane][10]: a, b, d as fragments; out: [product][lane][4]: d.
template <class T>
FT_INLINE void multiply_all(const u32* in, float* out, int products) {
  for (int i = 0; i < products; ++i) {
    const u32* const lane_in = in + (i * 32 + thread_index()) * 10;
    const u32 a[4] = {lane_in[0], lane_in[1], lane_in[2], lane_in[3]};
    float d[4];
    for (int e = 0; e < 4; ++e) d[e] = bits_float(lane_in[6 + e]);
    mma_16x8x16<T>(d, a, lane_in[4], lane_in[5]);
    for (int e = 0; e < 4; ++e) out[(i * 32 + thread_index()) * 4 + e] = d[e];
  }
}
FT_KERNEL(probe_mma_f16, 32) {
  multiply_all<f16>(static_cast<const u32*>(args.tensor[0]), static_cast<float*>(args.tensor[1]), args.batch);
}
FT_KERNEL(probe_mma_bf16, 32) {
  multiply_all<bf16>(static_cast<const u32*>(args.tensor[0]), static_cast<float*>(args.tensor[1]), args.batch);
}
