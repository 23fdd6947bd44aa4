// Our declarations of NVRTC's and the driver's functions against the toolkit's headers, by the compiler.
#include <cuda.h>
#include <gtest/gtest.h>
#include <nvrtc.h>

#include "backend/cuda/driver.h"
#include "backend/cuda/nvrtc.h"
#include "spelled_out.h"

namespace fusetune::backend::cuda {

template <class T>
requires std::is_same_v<T, nvrtcProgram> || std::is_same_v<T, CUcontext> || std::is_same_v<T, CUmodule> ||
    std::is_same_v<T, CUfunction> || std::is_same_v<T, CUstream> || std::is_same_v<T, CUevent> ||
    std::is_same_v<T, CUgraph> || std::is_same_v<T, CUgraphExec>
inline constexpr bool is_handle<T> = true;

namespace {

using Nv = NvrtcFunctions;
static_assert(std::is_same_v<OursOf<decltype(nvrtcGetErrorString)>, decltype(Nv::get_error_string)>);
static_assert(std::is_same_v<OursOf<decltype(nvrtcVersion)>, decltype(Nv::version)>);
static_assert(
    std::is_same_v<OursOf<decltype(nvrtcGetNumSupportedArchs)>, decltype(Nv::get_num_supported_archs)>);
static_assert(std::is_same_v<OursOf<decltype(nvrtcGetSupportedArchs)>, decltype(Nv::get_supported_archs)>);
static_assert(std::is_same_v<OursOf<decltype(nvrtcCreateProgram)>, decltype(Nv::create_program)>);
static_assert(std::is_same_v<OursOf<decltype(nvrtcCompileProgram)>, decltype(Nv::compile_program)>);
static_assert(std::is_same_v<OursOf<decltype(nvrtcGetCUBINSize)>, decltype(Nv::get_cubin_size)>);
static_assert(std::is_same_v<OursOf<decltype(nvrtcGetCUBIN)>, decltype(Nv::get_cubin)>);
static_assert(std::is_same_v<OursOf<decltype(nvrtcGetProgramLogSize)>, decltype(Nv::get_program_log_size)>);
static_assert(std::is_same_v<OursOf<decltype(nvrtcGetProgramLog)>, decltype(Nv::get_program_log)>);
static_assert(std::is_same_v<OursOf<decltype(nvrtcDestroyProgram)>, decltype(Nv::destroy_program)>);
#if CUDA_VERSION >= 13000
static_assert(std::is_same_v<OursOf<decltype(nvrtcSetFlowCallback)>, decltype(Nv::set_flow_callback)>);
#endif
static_assert(NVRTC_SUCCESS == kNvrtcSuccess);
static_assert(NVRTC_ERROR_OUT_OF_MEMORY == kNvrtcErrorOutOfMemory);
static_assert(NVRTC_ERROR_COMPILATION == kNvrtcErrorCompilation);
static_assert(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE == kNvrtcErrorBuiltinOperation);
#if CUDA_VERSION >= 13000
static_assert(NVRTC_ERROR_CANCELLED == kNvrtcErrorCancelled);
#endif

using Cu = DriverFunctions;
static_assert(std::is_same_v<OursOf<decltype(cuInit)>, decltype(Cu::init)>);
static_assert(std::is_same_v<OursOf<decltype(cuDriverGetVersion)>, decltype(Cu::driver_get_version)>);
static_assert(std::is_same_v<OursOf<decltype(cuDeviceGetCount)>, decltype(Cu::device_get_count)>);
static_assert(std::is_same_v<OursOf<decltype(cuDeviceGet)>, decltype(Cu::device_get)>);
static_assert(std::is_same_v<OursOf<decltype(cuDeviceGetName)>, decltype(Cu::device_get_name)>);
static_assert(std::is_same_v<OursOf<decltype(cuDeviceGetAttribute)>, decltype(Cu::device_get_attribute)>);
static_assert(std::is_same_v<OursOf<decltype(cuGetErrorName)>, decltype(Cu::get_error_name)>);
static_assert(std::is_same_v<OursOf<decltype(cuGetErrorString)>, decltype(Cu::get_error_string)>);
static_assert(
    std::is_same_v<OursOf<decltype(cuDevicePrimaryCtxRetain)>, decltype(Cu::primary_context_retain)>);
static_assert(
    std::is_same_v<OursOf<decltype(cuDevicePrimaryCtxRelease)>, decltype(Cu::primary_context_release)>);
static_assert(std::is_same_v<OursOf<decltype(cuCtxSetCurrent)>, decltype(Cu::context_set_current)>);
static_assert(std::is_same_v<OursOf<decltype(cuCtxSynchronize)>, decltype(Cu::context_synchronize)>);
static_assert(std::is_same_v<OursOf<decltype(cuMemAlloc)>, decltype(Cu::memory_allocate)>);
static_assert(std::is_same_v<OursOf<decltype(cuMemFree)>, decltype(Cu::memory_free)>);
static_assert(std::is_same_v<OursOf<decltype(cuMemcpyHtoD)>, decltype(Cu::copy_to_device)>);
static_assert(std::is_same_v<OursOf<decltype(cuMemcpyDtoH)>, decltype(Cu::copy_to_host)>);
static_assert(std::is_same_v<OursOf<decltype(cuMemcpyDtoDAsync)>, decltype(Cu::copy_on_device)>);
static_assert(std::is_same_v<OursOf<decltype(cuMemsetD8)>, decltype(Cu::memory_set)>);
static_assert(std::is_same_v<OursOf<decltype(cuModuleLoadData)>, decltype(Cu::module_load_data)>);
static_assert(std::is_same_v<OursOf<decltype(cuModuleUnload)>, decltype(Cu::module_unload)>);
static_assert(std::is_same_v<OursOf<decltype(cuModuleGetFunction)>, decltype(Cu::module_get_function)>);
static_assert(std::is_same_v<OursOf<decltype(cuFuncGetAttribute)>, decltype(Cu::function_get_attribute)>);
static_assert(std::is_same_v<OursOf<decltype(cuFuncSetAttribute)>, decltype(Cu::function_set_attribute)>);
static_assert(
    std::is_same_v<OursOf<decltype(cuOccupancyMaxActiveBlocksPerMultiprocessor)>, decltype(Cu::occupancy)>);
static_assert(std::is_same_v<OursOf<decltype(cuLaunchKernel)>, decltype(Cu::launch)>);
static_assert(std::is_same_v<OursOf<decltype(cuLaunchCooperativeKernel)>, decltype(Cu::launch_cooperative)>);
static_assert(std::is_same_v<OursOf<decltype(cuEventCreate)>, decltype(Cu::event_create)>);
static_assert(std::is_same_v<OursOf<decltype(cuEventDestroy)>, decltype(Cu::event_destroy)>);
static_assert(std::is_same_v<OursOf<decltype(cuEventRecord)>, decltype(Cu::event_record)>);
static_assert(std::is_same_v<OursOf<decltype(cuEventSynchronize)>, decltype(Cu::event_synchronize)>);
static_assert(std::is_same_v<OursOf<decltype(cuEventElapsedTime)>, decltype(Cu::event_elapsed)>);
static_assert(std::is_same_v<OursOf<decltype(cuDeviceTotalMem)>, decltype(Cu::device_total_memory)>);
static_assert(std::is_same_v<OursOf<decltype(cuStreamCreate)>, decltype(Cu::stream_create)>);
static_assert(std::is_same_v<OursOf<decltype(cuStreamDestroy)>, decltype(Cu::stream_destroy)>);
static_assert(std::is_same_v<OursOf<decltype(cuStreamSynchronize)>, decltype(Cu::stream_synchronize)>);
static_assert(std::is_same_v<OursOf<decltype(cuStreamBeginCapture)>, decltype(Cu::stream_begin_capture)>);
static_assert(std::is_same_v<OursOf<decltype(cuStreamEndCapture)>, decltype(Cu::stream_end_capture)>);
static_assert(std::is_same_v<OursOf<decltype(cuGraphInstantiateWithFlags)>, decltype(Cu::graph_instantiate)>);
static_assert(std::is_same_v<OursOf<decltype(cuGraphUpload)>, decltype(Cu::graph_upload)>);
static_assert(std::is_same_v<OursOf<decltype(cuGraphLaunch)>, decltype(Cu::graph_launch)>);
static_assert(std::is_same_v<OursOf<decltype(cuGraphExecDestroy)>, decltype(Cu::graph_executable_destroy)>);
static_assert(std::is_same_v<OursOf<decltype(cuGraphDestroy)>, decltype(Cu::graph_destroy)>);
// A struct of 16 bytes there.
static_assert(std::is_same_v<decltype(cuDeviceGetUuid), CUresult(CUuuid*, CUdevice)> && sizeof(CUuuid) == 16);
static_assert(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL == 1);
static_assert(CUDA_SUCCESS == kDriverSuccess && CUDA_ERROR_NO_DEVICE == kDriverNoDevice);

constexpr bool is(DeviceAttribute ours, CUdevice_attribute theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(is(DeviceAttribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(is(DeviceAttribute::clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
static_assert(is(DeviceAttribute::memory_clock_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE));
static_assert(is(DeviceAttribute::l2_cache_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
static_assert(is(DeviceAttribute::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(is(DeviceAttribute::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(is(DeviceAttribute::cooperative_launch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH));
static_assert(is(DeviceAttribute::shared_bytes_per_block_optin,
                 CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));

constexpr bool is(FunctionAttribute ours, CUfunction_attribute theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(is(FunctionAttribute::threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(is(FunctionAttribute::static_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
static_assert(is(FunctionAttribute::local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
static_assert(is(FunctionAttribute::registers, CU_FUNC_ATTRIBUTE_NUM_REGS));
static_assert(is(FunctionAttribute::dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));

TEST(Declarations, AreThoseOfTheToolkitsHeaders) { SUCCEED() << "the compiler has compared them"; }

}  // namespace
}  // namespace fusetune::backend::cuda
