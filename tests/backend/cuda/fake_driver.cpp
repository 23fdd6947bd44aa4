// Enough of the driver's entry points to list devices. FUSETUNE_FAKE_DRIVER: "none" has no device, "broken"
// does not start.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string behaviour() {
  const char* value = std::getenv("FUSETUNE_FAKE_DRIVER");
  return value == nullptr ? "" : value;
}

}  // namespace

extern "C" {

int cuInit(unsigned int /*flags*/) {
  if (behaviour() == "none") return 100;
  return behaviour() == "broken" ? 999 : 0;
}
int cuDriverGetVersion(int* version) {
  *version = 13020;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 40 + ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  std::strncpy(name, device == 40 ? "Fake H100" : "Fake A100", static_cast<std::size_t>(bytes));
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  switch (attribute) {
    case 16:
      *value = device == 40 ? 132 : 108;
      return 0;
    case 38:
      *value = 50 << 20;
      return 0;
    case 75:
      *value = device == 40 ? 9 : 8;
      return 0;
    case 76:
      *value = 0;
      return 0;
    case 95:
      *value = 1;
      return 0;
    case 97:
      *value = device == 40 ? 227 << 10 : 163 << 10;
      return 0;
    default:
      return 1;
  }
}

}  // extern "C"
