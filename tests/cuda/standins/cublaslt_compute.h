#pragma once

#include <cstdint>

#include <cublasLt.h>

namespace dettax::test {

// What the library knows of a product; its pointers are null where it is only asked about one.
struct LibraryProduct {
  struct Matrix {
    cudaDataType type;
    int64_t rows, columns, stride;
  };
  Matrix a, b, c, d;
  bool transpose_a, transpose_b;
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasLtEpilogue_t epilogue;
  void* vector;
  int vector_type;  // -1: that of d
  void* auxiliary;
  int64_t auxiliary_stride;
  int64_t m() const { return d.rows; }
  int64_t n() const { return d.columns; }
  int64_t k() const { return transpose_a ? a.rows : a.columns; }
};

// How an algorithm adds: `lanes` interleaved sums along k, in each of `splits` pieces.
struct SumShape {
  int lanes = 1, splits = 1;
  int tile_rows = 1, tile_columns = 1;
};

struct LibraryMemory {
  const void* a;
  const void* b;
  const void* c;
  void* d;
  float alpha, beta;
};
void compute_product(const LibraryProduct& product, const LibraryMemory& memory,
                     const SumShape& shape, uint64_t schedule);

}  // namespace dettax::test
