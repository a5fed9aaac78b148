// SPDX-License-Identifier: Apache-2.0
// Times every kernel of a GPU that is no matrix product and no attention, on sizes of GPT-2 124M in large batches: prints a
// line of JSON for each, with its seconds and the bytes that it must read or write. bench.py compares them with a copy. What
// the second-level cache keeps from one repetition to the next is overwritten in between.
// usage: kernel_rates [NAME]: only kernels whose name contains NAME. Exit code 77: there is no GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/base/granule.hpp"
#include "shoal/base/names.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/unit.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/cross_entropy.hpp"
#include "shoal/kernels/difference.hpp"
#include "shoal/kernels/dropout.hpp"
#include "shoal/kernels/embedding.hpp"
#include "shoal/kernels/layernorm.hpp"
#include "shoal/kernels/optimizer.hpp"
#include "shoal/kernels/outer.hpp"
#include "shoal/kernels/pointwise.hpp"
#include "shoal/kernels/quantize.hpp"
#include "shoal/kernels/reduce.hpp"
#include "shoal/kernels/runtime.hpp"

namespace {

using namespace shoal;
using namespace shoal::kernels;

constexpr std::size_t samples = 16, length = 1024, rows = samples * length, width = 768, hidden = 4 * width;
constexpr std::size_t narrow = rows * width, wide = rows * hidden;
constexpr std::size_t symbols = 50257, logits_stride = 50304, logits_rows = 2048;
constexpr std::size_t n = std::size_t{1} << 26U;  // of a flat buffer
constexpr std::size_t arena_bytes = std::size_t{6} << 30U, swept_bytes = std::size_t{256} << 20U;
constexpr int warm_up = 3, repetitions = 20;

void check(cudaError_t status) { require(status == cudaSuccess, "CUDA: ", cudaGetErrorString(status)); }

/// Memory of the GPU for one kernel.
class Arena {
 public:
  template <typename T>
  T* zeros(std::size_t count) {
    return memory_.take<T>(Kind::buffers, count, "kernel_rates").data();
  }
  /// Numbers from -2 to 2.
  template <typename T = float>
  T* values(std::size_t count) {
    constexpr std::size_t period = 4001;
    std::vector<T> some(period);
    for (std::size_t i = 0; i < period; ++i) some[i] = T(static_cast<float>(i * 7919 % period) / 1000.0F - 2.0F);
    T* const at = zeros<T>(count);
    device::copy(std::min(count, period) * sizeof(T), some.data(), at);
    for (std::size_t have = period; have < count; have *= 2) {
      device::copy(std::min(have, count - have) * sizeof(T), at, at + have);
    }
    device::wait_for_queue();
    return at;
  }

 private:
  static Ledger capacity() {
    Ledger bytes;
    bytes[Kind::buffers] = arena_bytes;
    return bytes;
  }
  device::DeviceMemory memory_{capacity()};
};

std::string wanted;
void* swept = nullptr;

/// Prints the median time of `pass`, which reads and writes this many bytes.
void time(const std::string& name, std::size_t bytes, const std::function<void()>& pass) {
  std::vector<float> milliseconds;
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  auto* const stream = static_cast<cudaStream_t>(device::stream());
  for (int i = 0; i < warm_up + repetitions; ++i) {
    check(cudaMemsetAsync(swept, i, swept_bytes, stream));
    check(cudaEventRecord(begin, stream));
    pass();
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    float taken = 0;
    check(cudaEventElapsedTime(&taken, begin, end));
    if (i >= warm_up) milliseconds.push_back(taken);
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("{\"kernel\": \"%s\", \"bytes\": %zu, \"seconds\": %.9g}\n", name.c_str(), bytes,
              static_cast<double>(milliseconds[milliseconds.size() / 2]) * 1e-3);
  std::fflush(stdout);
}

/// make(arena) returns what is to be timed.
template <class Make>
void kernel(const std::string& name, std::size_t bytes, const Make& make) {
  if (name.find(wanted) == std::string::npos) return;
  Arena arena;
  time(name, bytes, make(arena));
}

template <typename T>
void of_rows(const std::string& type) {
  constexpr std::size_t s = sizeof(T);
  const RowShape row_shape{rows, width}, wide_shape{rows, hidden};
  kernel(type + "layernorm_forward", 2 * narrow * s, [&](Arena& a) {
    return [=, x = a.values<T>(narrow), gain = a.values<T>(width), bias = a.values<T>(width), y = a.zeros<T>(narrow),
            mean = a.zeros<float>(rows), rstd = a.zeros<float>(rows)] {
      layernorm_forward<T>(row_shape, 1e-5F, {.x = x, .gain = gain, .bias = bias}, {.y = y, .mean = mean, .rstd = rstd});
    };
  });
  kernel(type + "layernorm_recompute", 2 * narrow * s, [&](Arena& a) {
    return [=, x = a.values<T>(narrow), gain = a.values<T>(width), bias = a.values<T>(width), y = a.zeros<T>(narrow),
            mean = a.values(rows), rstd = a.values(rows)] {
      layernorm_recompute<T>(row_shape, {.x = x, .gain = gain, .bias = bias}, {.mean = mean, .rstd = rstd}, y);
    };
  });
  kernel(type + "layernorm_backward", 4 * narrow * s, [&](Arena& a) {
    const std::size_t bytes = layernorm_workspace_bytes(row_shape);
    return [=, x = a.values<T>(narrow), dy = a.values<T>(narrow), residual = a.values<T>(narrow), gain = a.values<T>(width),
            dx = a.zeros<T>(narrow), mean = a.values(rows), rstd = a.values(rows), dgain = a.zeros<float>(width),
            dbias = a.zeros<float>(width), workspace = Span<std::byte>(a.zeros<std::byte>(bytes), bytes)] {
      layernorm_backward<T>(row_shape,
                            {.x = x, .gain = gain, .mean = mean, .rstd = rstd, .dy = dy, .residual_gradient = residual},
                            {.dx = dx, .dgain = dgain, .dbias = dbias}, workspace);
    };
  });
  kernel(type + "gelu_forward", 2 * wide * s,
         [&](Arena& a) { return [u = a.values<T>(wide), g = a.zeros<T>(wide)] { gelu_forward(wide, u, g); }; });
  kernel(type + "gelu_backward", 4 * wide * s, [&](Arena& a) {
    const std::size_t bytes = column_sum_workspace_bytes(wide_shape);
    return [=, u = a.values<T>(wide), dg = a.values<T>(wide), g = a.zeros<T>(wide), du = a.zeros<T>(wide),
            dbias = a.zeros<float>(hidden), workspace = Span<std::byte>(a.zeros<std::byte>(bytes), bytes)] {
      gelu_backward<T>(wide_shape, {.u = u, .dg = dg}, {.g = g, .du = du, .dbias = dbias}, workspace);
    };
  });
  kernel(type + "column_sum", wide * s, [&](Arena& a) {
    const std::size_t bytes = column_sum_workspace_bytes(wide_shape);
    return
        [=, x = a.values<T>(wide), sums = a.zeros<float>(hidden),
         workspace = Span<std::byte>(a.zeros<std::byte>(bytes), bytes)] { column_sum<T>(wide_shape, x, sums, workspace); };
  });
  kernel(type + "relu_forward", 2 * wide * s, [&](Arena& a) { return [x = a.values<T>(wide)] { relu_forward(wide, x); }; });
  kernel(type + "relu_backward", 3 * wide * s, [&](Arena& a) {
    return [y = a.values<T>(wide), dy = a.values<T>(wide), dx = a.zeros<T>(wide)] { relu_backward(wide, y, dy, dx); };
  });
  const Dropout dropout{0.1F, 1, 1, 0, 0};
  kernel(type + "dropout_add", 3 * narrow * s, [&](Arena& a) {
    return [=, x = a.values<T>(narrow), residual = a.values<T>(narrow), y = a.zeros<T>(narrow)] {
      dropout_add(dropout, samples, length * width, x, residual, y);
    };
  });
  kernel(type + "dropout_backward", 2 * narrow * s, [&](Arena& a) {
    return [=, dy = a.values<T>(narrow), dx = a.zeros<T>(narrow)] {
      dropout_backward(dropout, samples, length * width, dy, dx);
    };
  });
}

const std::int32_t* tokens(Arena& arena) {
  std::vector<std::int32_t> some(rows);
  for (std::size_t i = 0; i < rows; ++i) some[i] = static_cast<std::int32_t>(i * i * 7 % symbols);
  auto* const at = arena.zeros<std::int32_t>(rows);
  device::copy(rows * sizeof(std::int32_t), some.data(), at);
  device::wait_for_queue();
  return at;
}

template <typename T>
void of_ends(const std::string& type) {
  constexpr std::size_t s = sizeof(T), table = symbols * width;
  kernel(type + "embedding_forward", 2 * narrow * s, [&](Arena& a) {
    return [ids = tokens(a), wte = a.values<T>(table), wpe = a.values<T>(length * width), x = a.zeros<T>(narrow)] {
      embedding_forward<T>({samples, length, width}, ids, {.token = wte, .position = wpe}, x);
    };
  });
  // The gradient is added to what the head has written: each token's row is read and written.
  kernel(type + "embedding_backward", narrow * (s + 2 * sizeof(float)), [&](Arena& a) {
    return [ids = tokens(a), dx = a.values<T>(narrow), dwte = a.zeros<float>(table), dwpe = a.zeros<float>(length * width)] {
      embedding_backward<T>({samples, length, width}, ids, dx, {.token = dwte, .position = dwpe});
    };
  });
  kernel(type + "cross_entropy", logits_rows * symbols * (sizeof(float) + s), [&](Arena& a) {
    return [ids = tokens(a), logits = a.values(logits_rows * logits_stride), losses = a.zeros<float>(logits_rows),
            gradient = a.zeros<T>(logits_rows * logits_stride)] {
      cross_entropy<T>({logits_rows, symbols}, {.logits = logits, .targets = ids, .stride = logits_stride}, 1e-3F,
                       {.losses = losses, .dlogits = gradient});
    };
  });
}

template <typename T>
void of_buffers(const std::string& type) {
  constexpr std::size_t s = sizeof(T);
  kernel(type + "add", 3 * n * s, [&](Arena& a) { return [x = a.values<T>(n), y = a.values<T>(n)] { add<T>(n, x, y); }; });
  kernel(type + "sum_of_squares", n * s, [&](Arena& a) {
    return [x = a.values<T>(n), sums = a.zeros<double>(n / granule)] { sum_of_squares_by_granule<T>(n, x, sums); };
  });
  kernel(type + "adamw", n * (28 + (s == 2 ? s : 0)), [&](Arena& a) {
    auto* const second = a.zeros<float>(n);
    fill(n, 0.01F, second);  // second moments are not negative
    void* const copy = s == 2 ? a.zeros<T>(n) : nullptr;
    return [=, gradient = a.values(n), master = a.values(n), first = a.values(n)] {
      adamw(n, {1e-3, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1.0}, gradient, {.master = master, .first = first, .second = second},
            {.type = dtype_of<T>, .data = copy});
    };
  });
  if constexpr (s == 2) {
    kernel(type + "narrow", n * (4 + s),
           [&](Arena& a) { return [x = a.values(n), y = a.zeros<T>(n)] { convert<float, T>(n, x, y); }; });
    kernel(type + "widen", n * (4 + s),
           [&](Arena& a) { return [x = a.values<T>(n), y = a.zeros<float>(n)] { convert<T, float>(n, x, y); }; });
  }
}

void of_quantization() {
  for (const int bits : {8, 4}) {
    const QuantFormat format{bits, 256, QuantRounding::accurate};
    const std::size_t codes_bytes = quantized_bytes(n, format);
    const std::string name = text("int", bits, '/');
    kernel(name + "quantize", n * sizeof(bf16) + codes_bytes, [&](Arena& a) {
      return [=, x = a.values<bf16>(n), codes = a.zeros<std::byte>(codes_bytes)] {
        quantize(format, DType::bf16, n, x, codes);
      };
    });
    kernel(name + "dequantize", n * sizeof(bf16) + codes_bytes, [&](Arena& a) {
      auto* const x = a.values<bf16>(n);
      auto* const codes = a.zeros<std::byte>(codes_bytes);
      quantize(format, DType::bf16, n, x, codes);
      return [=] { dequantize(format, DType::bf16, n, codes, x); };
    });
    kernel(name + "quantize_sum", n * sizeof(float) + 2 * codes_bytes, [&](Arena& a) {
      auto* const x = a.values(n);
      auto* const arrived = a.zeros<std::byte>(codes_bytes);
      quantize(format, DType::f32, n, x, arrived);
      return [=, codes = a.zeros<std::byte>(codes_bytes)] {
        const QuantTerm terms[] = {QuantTerm::of(DType::f32, x), QuantTerm::codes(bits, arrived)};
        quantize(format, n, terms, nullptr, codes);
      };
    });
  }
}

void of_local_training() {
  constexpr std::size_t s = sizeof(float);
  const OuterStep step{.momentum = 1.0F, .rate = 0.7F, .inner_rate = 1e-3F};
  kernel("average_with", 3 * n * s, [&](Arena& a) { return [x = a.values(n), y = a.values(n)] { average_with(n, x, y); }; });
  kernel("outer_nesterov", 6 * n * s, [&](Arena& a) {
    return [=, x = a.values(n), y = a.values(n), z = a.values(n)] { outer_nesterov(n, step, x, y, z); };
  });
  kernel("slow_momentum", 6 * n * s, [&](Arena& a) {
    return [=, x = a.values(n), y = a.values(n), z = a.values(n)] { slow_momentum(n, step, x, y, z); };
  });
  kernel("subtract", 3 * n * s, [&](Arena& a) {
    return [x = a.values(n), y = a.values(n), z = a.zeros<float>(n)] { subtract(DType::f32, n, x, y, z); };
  });
  kernel("fill", n * s, [&](Arena& a) { return [x = a.zeros<float>(n)] { fill(n, 1.0F, x); }; });
}

template <typename T>
void of_type() {
  const std::string type = text(name_of(dtype_of<T>), '/');
  of_rows<T>(type);
  of_ends<T>(type);
  of_buffers<T>(type);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1) wanted = argv[1];
    const device::Unit gpu = device::open({});
    if (!gpu.given()) {
      std::fprintf(stderr, "kernel_rates: no GPU: nothing was measured (%s)\n", gpu.problem.data());
      return 77;
    }
    const Runtime runtime(1);
    check(cudaMalloc(&swept, swept_bytes));
    kernel("copy", 2 * n * sizeof(float),
           [](Arena& a) { return [x = a.values(n), y = a.zeros<float>(n)] { copy_bytes(n * sizeof(float), x, y); }; });
    of_type<bf16>();
    of_type<float>();
    of_type<f16>();
    of_quantization();
    of_local_training();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_rates: %s\n", error.what());
    return 1;
  }
}
