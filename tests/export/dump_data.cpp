// Compiled by the test: the bundle's generated tensors, one after the other, as float32.
#include <cstdio>

#include "data.h"

int main() {
  for (int stream = 0; stream < 13; ++stream) {
    const std::vector<float> values = data::make(stream);
    std::fwrite(values.data(), sizeof(float), values.size(), stdout);
  }
}
