// A function's type as our declarations spell it, without the toolkit's own types.
#pragma once

#include <type_traits>

namespace fusetune::backend::cuda {

/// Specialised by each test for its header's pointers to opaque structs: void* in ours.
template <class T>
inline constexpr bool is_handle = false;

/// Enums are int, of the same size. Specialised by a test for structs that we declare ourselves.
template <class T>
struct Ours {
  using type = T;
};
template <class T>
requires std::is_enum_v<T>
struct Ours<T> {
  static_assert(sizeof(T) == sizeof(int));
  using type = int;
};
template <class T>
requires is_handle<T>
struct Ours<T> {
  using type = void*;
};
template <class T>
requires is_handle<T>
struct Ours<T*> {
  using type = void**;
};
template <class Result, class... Arguments>
struct Ours<Result(Arguments...)> {
  using type = typename Ours<Result>::type (*)(typename Ours<Arguments>::type...);
};
template <class Function>
using OursOf = typename Ours<Function>::type;

}  // namespace fusetune::backend::cuda
