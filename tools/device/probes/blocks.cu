// What blocks do together, round after round on data that each of them checks: ordinary stores before, ordinary
// loads behind. args.batch rounds; 128 threads a block. out[block]: how many words were wrong.

FT_INLINE u32 scramble(u32 a, u32 b, u32 c) {
  u32 h = a * 0x9e3779b1u ^ b * 0x85ebca77u ^ c * 0xc2b2ae3du;
  h = (h ^ h >> 15) * 0x2c1b3c6du;
  return h ^ h >> 13;
}
/// Some hundred cycles that differ from block to block, so that they arrive in every order.
FT_INLINE u32 dawdle(u32 seed) {
  u32 x = seed;
  const int steps = int(seed % 64u);
  FT_NO_UNROLL
  for (int i = 0; i < steps; ++i) x = x * 1664525u + 1013904223u;
  return x;
}
/// Sums the threads' counts of wrong words; `shared` holds 128 words.
FT_INLINE void report_wrong(const ft_gpu_args& args, unsigned char* shared, u32 wrong) {
  u32* const counts = reinterpret_cast<u32*>(shared);
  block_sync();
  counts[thread_index()] = wrong;
  block_sync();
  if (thread_index() != 0) return;
  u32 sum = 0;
  for (int i = 0; i < 128; ++i) sum += counts[i];
  static_cast<u32*>(args.tensor[1])[block_index()] = sum;
}

/// tensor[0]: [2][blocks][128] words. tensor[2]: [blocks] words that keep dawdle() alive.
FT_KERNEL(stress_grid_barrier, 128) {
  FT_SHARED(shared);
  const u32 blocks = u32(grid_blocks()), block = u32(block_index()), thread = u32(thread_index());
  u32 wrong = 0, noise = 0;
  for (u32 round = 0; round < u32(args.batch); ++round) {
    u32* const data = static_cast<u32*>(args.tensor[0]) + (round % 2) * blocks * 128;
    noise += dawdle(scramble(round, block, 1));
    data[block * 128 + thread] = scramble(round, block, thread);
    grid_barrier(args.sync);
    for (u32 k = 1; k <= 4; ++k) {
      const u32 other = (block + k * (round % 61 + 1)) % blocks, word = (thread + 37 * k) % 128;
      if (data[other * 128 + word] != scramble(round, other, word)) ++wrong;
    }
  }
  if (thread == 0) static_cast<u32*>(args.tensor[2])[block] = noise;
  report_wrong(args, shared, wrong);
}

/// Each block waits for both of its neighbours only. The words as above; sync: [2 + blocks].
FT_KERNEL(stress_counters, 128) {
  FT_SHARED(shared);
  const u32 blocks = u32(grid_blocks()), block = u32(block_index()), thread = u32(thread_index());
  u32* const counters = args.sync + 2;
  u32 wrong = 0, noise = 0;
  for (u32 round = 0; round < u32(args.batch); ++round) {
    u32* const data = static_cast<u32*>(args.tensor[0]) + (round % 2) * blocks * 128;
    noise += dawdle(scramble(round, block, 2));
    data[block * 128 + thread] = scramble(round, block, thread);
    counter_add(counters + block, 1);
    for (u32 side = 0; side < 2; ++side) {
      const u32 other = (block + (side == 0 ? 1 : blocks - 1)) % blocks, word = (thread + 37) % 128;
      counter_wait(counters + other, round + 1);
      if (data[other * 128 + word] != scramble(round, other, word)) ++wrong;
    }
  }
  if (thread == 0) static_cast<u32*>(args.tensor[2])[block] = noise;
  report_wrong(args, shared, wrong);
}

/// The last block of each round checks what all have written. tensor[0]: [rounds][blocks][128] words; tensor[3]:
/// [rounds], how often a block was the last; sync: [2 + rounds], zero again afterwards.
FT_KERNEL(stress_last, 128) {
  FT_SHARED(shared);
  const u32 blocks = u32(grid_blocks()), block = u32(block_index()), thread = u32(thread_index());
  u32 wrong = 0, noise = 0;
  for (u32 round = 0; round < u32(args.batch); ++round) {
    u32* const data = static_cast<u32*>(args.tensor[0]) + round * blocks * 128;
    noise += dawdle(scramble(round, block, 3));
    data[block * 128 + thread] = scramble(round, block, thread);
    if (!counter_last(args.sync + 2 + round, blocks, reinterpret_cast<u32*>(shared))) continue;
    const u32 word = (thread + 37) % 128;
    for (u32 other = 0; other < blocks; ++other)
      if (data[other * 128 + word] != scramble(round, other, word)) ++wrong;
    if (thread == 0) static_cast<u32*>(args.tensor[3])[round] += 1;
  }
  if (thread == 0) static_cast<u32*>(args.tensor[2])[block] = noise;
  report_wrong(args, shared, wrong);
}
