/* Prints the milliseconds of the fastest of several LU decompositions of others: `lud DIMENSION RUNS THREADS`. By OpenBLAS, or
 * with -DRODINIA by Rodinia's lud_omp.c, which is linked. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int omp_num_threads;

#ifdef RODINIA
void lud_omp(float *matrix, int size);
#endif

static void (*sgetrf)(int *, int *, float *, int *, int *, int *);

static void decompose(float *matrix, int n, int *pivots) {
#ifdef RODINIA
    lud_omp(matrix, n);
#else
    int info;
    sgetrf(&n, &n, matrix, &n, pivots, &info);
#endif
}

int main(int count, char **words) {
    if (count != 4) return 2;
    int n = atoi(words[1]), runs = atoi(words[2]);
    omp_num_threads = atoi(words[3]);
#ifndef RODINIA
    void *library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (library) *(void **)&sgetrf = dlsym(library, "sgetrf_");
    if (!sgetrf) return fprintf(stderr, "libopenblas.so.0 cannot be loaded: install libopenblas0-pthread\n"), 1;
#endif
    float *matrix = malloc(sizeof *matrix * n * n);
    int *pivots = malloc(sizeof *pivots * n);
    double least = 1e9;
    for (int run = 0; run <= runs; run++) {
        for (int i = 0; i < n * n; i++) matrix[i] = (i / n == i % n) * n + rand() / (float)RAND_MAX;
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        decompose(matrix, n, pivots);
        clock_gettime(CLOCK_MONOTONIC, &end);
        double ms = (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) / 1e6;
        if (run && ms < least) least = ms;
    }
    printf("\n%.6f\n", least);
    return 0;
}
