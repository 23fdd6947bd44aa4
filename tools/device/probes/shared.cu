// What moves data into and out of shared memory. One warp each.

/// args.batch rounds on a shared image of 4096 halves (tensor[0]). tensor[2]: [round][lane], each lane's row as
/// an offset in halves, a multiple of 8. out: [round][lane][8]: the registers as they are, then transposed.
FT_KERNEL(probe_ldmatrix, 32) {
  FT_SHARED(shared);
  f16* const image = reinterpret_cast<f16*>(shared);
  const u32* const in = static_cast<const u32*>(args.tensor[0]);
  const int* const rows = static_cast<const int*>(args.tensor[2]);
  u32* const out = static_cast<u32*>(args.tensor[1]);
  for (int i = thread_index(); i < 2048; i += 32) reinterpret_cast<u32*>(shared)[i] = in[i];
  warp_sync();
  for (int round = 0; round < args.batch; ++round) {
    const int at = round * 32 + thread_index();
    u32 plain[4], transposed[4];
    ldmatrix_x4(plain, image + rows[at]);
    ldmatrix_x4_transposed(transposed, image + rows[at]);
    for (int e = 0; e < 4; ++e) {
      out[8 * at + e] = plain[e];
      out[8 * at + 4 + e] = transposed[e];
    }
  }
}

/// Three groups of copies a round, each lane one of Bytes from word tensor[2][round][group][lane] of `in`, or
/// none where that is negative. Two groups are read after a wait for all but one, the third after all. Each lane
/// reads its right neighbour's copies too, which needs the barrier.
template <int Bytes>
FT_INLINE void copy_in_groups(const ft_gpu_args& args, unsigned char* shared) {
  constexpr int words = Bytes / 4, groups = 3;
  const int lane = thread_index(), right = (lane + 1) % 32;
  const u32* const in = static_cast<const u32*>(args.tensor[0]);
  const int* const from = static_cast<const int*>(args.tensor[2]);
  u32* const out = static_cast<u32*>(args.tensor[1]);
  u32* const slots = reinterpret_cast<u32*>(shared);  // [group][lane][words]
  for (int round = 0; round < args.batch; ++round) {
    for (int i = lane; i < groups * 32 * words; i += 32) slots[i] = 0xa5a5a5a5u;
    block_sync();
    for (int group = 0; group < groups; ++group) {
      const int word = from[(round * groups + group) * 32 + lane];
      copy_async<Bytes>(slots + (group * 32 + lane) * words, in + (word < 0 ? 0 : word), word >= 0);
      copy_async_commit();
    }
    const auto show = [&](int group) {
      for (int e = 0; e < words; ++e)
        out[((round * groups + group) * 32 + lane) * words + e] = slots[(group * 32 + right) * words + e];
    };
    copy_async_wait<1>();
    block_sync();
    show(0);
    show(1);
    copy_async_wait<0>();
    block_sync();
    show(2);
    block_sync();
  }
}
FT_KERNEL(probe_copy_async_4, 32) {
  FT_SHARED(shared);
  copy_in_groups<4>(args, shared);
}
FT_KERNEL(probe_copy_async_8, 32) {
  FT_SHARED(shared);
  copy_in_groups<8>(args, shared);
}
FT_KERNEL(probe_copy_async_16, 32) {
  FT_SHARED(shared);
  copy_in_groups<16>(args, shared);
}

/// More dynamic shared memory than a block has without asking for it: args.batch words of tensor[0] through it, in
/// reverse order. out: [word].
FT_KERNEL(probe_large_shared, 32) {
  FT_SHARED(shared);
  u32* const words = reinterpret_cast<u32*>(shared);
  const u32* const in = static_cast<const u32*>(args.tensor[0]);
  u32* const out = static_cast<u32*>(args.tensor[1]);
  for (int i = thread_index(); i < args.batch; i += 32) words[i] = in[i];
  block_sync();
  for (int i = thread_index(); i < args.batch; i += 32) out[i] = words[args.batch - 1 - i];
}
