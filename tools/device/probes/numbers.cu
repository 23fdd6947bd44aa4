// The platform's conversions and functions of single numbers. One warp each.

/// out[2 i], out[2 i + 1]: the f16 and the bf16 of bits i as float32, for all args.batch values of i.
FT_KERNEL(probe_to_float, 32) {
  u32* const out = static_cast<u32*>(args.tensor[1]);
  for (int i = thread_index(); i < args.batch; i += 32) {
    out[2 * i] = float_bits(to_float(f16{u16(i)}));
    out[2 * i + 1] = float_bits(to_float(bf16{u16(i)}));
  }
}

/// out[3 i ..]: in[i] as f16 and bf16 in one word; the pair (in[i], in[i + 1]) as f16, as bf16.
FT_KERNEL(probe_from_float, 32) {
  const float* const in = static_cast<const float*>(args.tensor[0]);
  u32* const out = static_cast<u32*>(args.tensor[1]);
  for (int i = thread_index(); i < args.batch; i += 32) {
    const float x = in[i], y = in[i + 1 < args.batch ? i + 1 : 0];
    out[3 * i] = u32(from_float<f16>(x).bits) | u32(from_float<bf16>(x).bits) << 16;
    out[3 * i + 1] = pack_pair<f16>(x, y);
    out[3 * i + 2] = pack_pair<bf16>(x, y);
  }
}

FT_KERNEL(probe_exp2, 32) {
  const float* const in = static_cast<const float*>(args.tensor[0]);
  float* const out = static_cast<float*>(args.tensor[1]);
  for (int i = thread_index(); i < args.batch; i += 32) out[i] = exp2_fast(in[i]);
}

FT_KERNEL(probe_square_root, 32) {
  const float* const in = static_cast<const float*>(args.tensor[0]);
  float* const out = static_cast<float*>(args.tensor[1]);
  for (int i = thread_index(); i < args.batch; i += 32) out[i] = square_root(in[i]);
}
