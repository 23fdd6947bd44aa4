// Tiles of matrices in shared memory, and the sources that fill them.
//
// A source describes where a matrix's elements come from: rows in memory, heads gathered into rows, rows with
// bias and activation applied. fetch() moves kChunk neighbouring elements to shared memory, asynchronously
// where nothing has to be computed. Elements outside the matrix become zero, so that every tile is whole.
#ifndef FUSETUNE_KERNELS_CUDA_TILE_H
#define FUSETUNE_KERNELS_CUDA_TILE_H

namespace ft {

// What kernels/ops needs of a value type, for single floats.
template <class V>
FT_INLINE V splat(float x) {
  return x;
}
FT_INLINE float select(bool condition, float a, float b) { return condition ? a : b; }
FT_INLINE float scale_by_power_of_two(float x, float shifted) {
  return bits_float(float_bits(x) + (float_bits(shifted) << 23));
}

FT_INLINE constexpr int min_of(int a, int b) { return a < b ? a : b; }
FT_INLINE constexpr int max_of(int a, int b) { return a > b ? a : b; }
FT_INLINE constexpr int ceil_div(int n, int d) { return (n + d - 1) / d; }
FT_INLINE constexpr int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }
FT_INLINE float infinity() { return bits_float(0x7f800000u); }
FT_INLINE int lane_index() { return thread_index() % 32; }
FT_INLINE int warp_index() { return thread_index() / 32; }

/// Padding of a tile's rows by 16 bytes: eight rows that are read at once then lie in different banks.
template <class T>
constexpr int kPad = 16 / int(sizeof(T));

/// Elements of the widest copy (16, 8 or 4 bytes) that divides rows of `columns` elements; else 1.
template <class T>
FT_INLINE constexpr int chunk_of(int columns) {
  const int size = int(sizeof(T));
  return columns * size % 16 == 0  ? 16 / size
         : columns * size % 8 == 0 ? 8 / size
         : columns * size % 4 == 0 ? 4 / size
                                   : 1;
}

template <class T, int Chunk>
FT_INLINE void copy_chunk(T* shared, const T* global, bool valid) {
  if constexpr (Chunk * sizeof(T) >= 4)
    copy_async<Chunk* int(sizeof(T))>(shared, global, valid);
  else
    *shared = valid ? *global : T{};
}

/// A row-major matrix in memory whose rows have Columns elements.
template <class T, int Columns>
struct Matrix {
  static constexpr int kChunk = chunk_of<T>(Columns);
  const T* data;
  FT_INLINE void fetch(T* shared, int row, int column, bool valid) const {
    copy_chunk<T, kChunk>(shared, data + (valid ? i64(row) * Columns + column : 0), valid);
  }
};

/// Rows of K or V, W of every Stride elements. Keys that no query sees are zero whatever they hold, NaN
/// included.
template <class T, int W, int Stride>
struct KeyRows {
  static constexpr int kChunk = min_of(chunk_of<T>(W), chunk_of<T>(Stride));
  const T* data;
  const u8* used;
  FT_INLINE void fetch(T* shared, int row, int column, bool valid) const {
    valid = valid && used[row] != 0;
    copy_chunk<T, kChunk>(shared, data + (valid ? i64(row) * Stride + column : 0), valid);
  }
};

/// The same with the bias added on the way (operator 1), for all rows where `used` is null: the rows of Q.
template <class T, int W, int Stride>
struct BiasedRows {
  static constexpr int kChunk = chunk_of<T>(W);
  const T* data;
  const float* bias;
  const u8* used;
  FT_INLINE void fetch(T* shared, int row, int column, bool valid) const {
    valid = valid && (used == nullptr || used[row] != 0);
    const T* x = data + (valid ? i64(row) * Stride + column : 0);
    FT_UNROLL
    for (int i = 0; i < kChunk; ++i)
      shared[i] = valid ? from_float<T>(to_float(x[i]) + bias[column + i]) : T{};
  }
};

/// Token rows gathered from context [B,H,S,W] (operator 6).
template <class T, int S, int H, int W>
struct MergedHeads {
  static constexpr int kChunk = chunk_of<T>(W);
  const T* context;
  FT_INLINE void fetch(T* shared, int row, int column, bool valid) const {
    const i64 head = i64(row / S) * H + column / W;
    copy_chunk<T, kChunk>(shared, context + (valid ? (head * S + row % S) * W + column % W : 0), valid);
  }
};

/// Rows with bias and activation applied on the way (operator 11).
template <class T, int Columns, class Activation>
struct ActivatedRows {
  static constexpr int kChunk = chunk_of<T>(Columns);
  const T* data;
  const float* bias;
  FT_INLINE void fetch(T* shared, int row, int column, bool valid) const {
    const T* x = data + (valid ? i64(row) * Columns + column : 0);
    FT_UNROLL
    for (int i = 0; i < kChunk; ++i)
      shared[i] = valid ? from_float<T>(Activation{}(to_float(x[i]) + bias[column + i])) : T{};
  }
};

/// Fills a tile of Rows x Columns with elements [row0, ...) x [column0, ...) of a matrix that ends at `rows`
/// and `columns`. By all Threads threads; the copies are not committed yet.
template <int Rows, int Columns, int Ld, int Threads, class T, class Source>
FT_INLINE void load_tile(T* tile, const Source& source, int row0, int rows, int column0, int columns) {
  constexpr int chunk = Source::kChunk, chunks = Columns / chunk;
  for (int i = thread_index(); i < Rows * chunks; i += Threads) {
    const int r = i / chunks, c = i % chunks * chunk;
    source.fetch(tile + r * Ld + c, row0 + r, column0 + c, row0 + r < rows && column0 + c < columns);
  }
}

// ------------------------------------------------------------------------------------- pairs of elements

/// Elements x[0] and x[1]; Even: both exist and are aligned as a pair. Else x[1] only where `second`.
template <bool Even, class T>
FT_INLINE float_pair load_pair(const T* x, bool second) {
  if constexpr (!Even)
    return {to_float(x[0]), second ? to_float(x[1]) : 0.0f};
  else if constexpr (sizeof(T) == 4)
    return *reinterpret_cast<const float_pair*>(x);
  else {
    const u32 both = *reinterpret_cast<const u32*>(x);
    return {to_float(T{u16(both)}), to_float(T{u16(both >> 16)})};
  }
}
template <bool Even, class T>
FT_INLINE void store_pair(T* x, float_pair value, bool second) {
  if constexpr (!Even) {
    x[0] = from_float<T>(value.x);
    if (second) x[1] = from_float<T>(value.y);
  } else if constexpr (sizeof(T) == 4) {
    *reinterpret_cast<float_pair*>(x) = value;
  } else {
    *reinterpret_cast<u32*>(x) = pack_pair<T>(value.x, value.y);
  }
}

}  // namespace ft

#endif
