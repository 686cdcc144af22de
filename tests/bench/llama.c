/* Stands for llama-bench in the tests of `capgate bench`: it asks the stand-in for Metal what it is told, and prints
 * llama-bench's JSON on standard output and its Metal backend's lines on standard error accordingly. It computes nothing.
 *
 *   llama -m FILE [-p N] [-n N] [-r N] [-ngl N] [-b N] [-o json]
 *
 * What it does beside that stands in the environment:
 *
 *   BUILD=N             the build that it says it is
 *   BARE=host           on a machine that says it is no guest, it names the Mac itself
 *   DO=WORD WHEN=ARM    what it does in an arm (stock, override, cpu, any), which it knows by what it is told
 *   FROM=N TO=N COUNT=DIR   only from its Nth start in that arm up to another; starts are counted in files of that folder
 *
 * and the words are
 *
 *   crash       ends by a signal, without a word      abort     prints ggml's assertion, and ends with 134
 *   hush        keeps the library from saying that it is active
 *   family      says that it was told family 5        differ    says that it ran with other settings
 *   hang        never ends                            orphan    leaves a child that never ends
 *   flood       never stops writing                   slow      takes a second
 *   busy        adds an hour of others' time to the file that STAT names
 *   cut         writes half of its JSON               wrong     prints another answer (with --answer)
 *
 * With `--answer` it prints a fixed text in place of JSON, as another program that loads the same images would; with
 * `test` as its first word it prints as test-backend-ops does, with `--log-jsonl` as llama-completion, with `-f FILE` as
 * llama-perplexity. `wrong` is wrong there, too.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "Metal.h"

/* Whether it runs on a Mac itself, as the stand-in for a Mac's kernel says. */
static int is_bare(void)
{
    char path[4096], line[256];
    int bare = 0;
    FILE *file;
    if (!getenv("BARE") || !getenv("STANDIN"))
        return 0;
    snprintf(path, sizeof path, "%s/sysctl", getenv("STANDIN"));
    file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        bare |= strcmp(line, "kern.hv_vmm_present=#0\n") == 0;
    if (file)
        fclose(file);
    return bare;
}

static long option(int count, char **words, const char *name, long otherwise)
{
    for (int i = 1; i + 1 < count; i++)
        if (strcmp(words[i], name) == 0)
            return atol(words[i + 1]);
    return otherwise;
}

static const char *text_option(int count, char **words, const char *name)
{
    for (int i = 1; i + 1 < count; i++)
        if (strcmp(words[i], name) == 0)
            return words[i + 1];
    return "";
}

static int has(int count, char **words, const char *name)
{
    for (int i = 1; i < count; i++)
        if (strcmp(words[i], name) == 0)
            return 1;
    return 0;
}

/* Which start in this arm it is, counted from 1; always the first where nothing counts. */
static long start_in(const char *arm)
{
    char path[4096];
    long count = 0;
    FILE *file;
    if (!getenv("COUNT"))
        return 1;
    snprintf(path, sizeof path, "%s/%s", getenv("COUNT"), arm);
    file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%ld", &count) != 1)
            count = 0;
        fclose(file);
    }
    count++;
    file = fopen(path, "w");
    if (file) {
        fprintf(file, "%ld\n", count);
        fclose(file);
    }
    return count;
}

static const char *wanted_for(const char *arm, long start)
{
    const char *what = getenv("DO"), *when = getenv("WHEN");
    long from = getenv("FROM") ? atol(getenv("FROM")) : 1, to = getenv("TO") ? atol(getenv("TO")) : 1L << 40;
    if (!what || start < from || start > to || (when && strcmp(when, "any") != 0 && strcmp(when, arm) != 0))
        return "";
    return what;
}

static void add_an_hour(void)
{
    const char *path = getenv("STAT");
    long busy = 0;
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "cpu %ld", &busy) != 1)
        busy = 0;
    if (file)
        fclose(file);
    file = fopen(path, "w");
    if (file) {
        fprintf(file, "cpu %ld 0 0 1000 0 0 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\n", busy + 360000);
        fclose(file);
    }
}

static void test(int count, char **words, long prompt, long generated, double rate, const char *wanted, int *first)
{
    long repeats = option(count, words, "-r", 5), layers = option(count, words, "-ngl", -1);
    long batch = option(count, words, "-b", 2048);
    long ns[64];
    char when[64];
    time_t now = time(NULL);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    if (repeats > 64)
        repeats = 64;
    for (long i = 0; i < repeats; i++) {
        struct timespec clock;
        clock_gettime(CLOCK_MONOTONIC, &clock);
        /* A little spread, so that no two samples are the same. */
        ns[i] = (long)(1e9 * (double)(prompt + generated) / rate) + (clock.tv_nsec + i * 7919) % 99991;
    }
    printf("%s  {\n    \"build_commit\": \"standin\",\n    \"build_number\": %s,\n", *first ? "[\n" : ",\n",
           getenv("BUILD") ? getenv("BUILD") : "10167");
    *first = 0;
    printf("    \"cpu_info\": \"Apple M1 Ultra%s\",\n    \"gpu_info\": \"%s\",\n    \"backends\": \"MTL\",\n",
           is_bare() ? "" : " (Virtual)", layers == 0 ? "" : is_bare() ? "Apple M1 Ultra" : "Apple Paravirtual device");
    printf("    \"model_filename\": \"%s\",\n    \"model_type\": \"llama ?B F16\",\n    \"model_size\": 7349248,\n"
           "    \"model_n_params\": 3672320,\n",
           text_option(count, words, "-m"));
    printf("    \"n_batch\": %ld,\n    \"n_gpu_layers\": %ld,\n    \"load_mode\": \"auto\",\n",
           strcmp(wanted, "differ") == 0 ? batch + 1 : batch, layers);
    printf("    \"n_prompt\": %ld,\n    \"n_gen\": %ld,\n    \"n_depth\": 0,\n    \"test_time\": \"%s\",\n", prompt,
           generated, when);
    if (strcmp(wanted, "cut") == 0) {
        printf("    \"samples_ns\": [ %ld", ns[0]);
        fflush(stdout);
        _exit(0);
    }
    double mean = 0, rates = 0;
    for (long i = 0; i < repeats; i++) {
        mean += (double)ns[i] / (double)repeats;
        rates += (double)(prompt + generated) * 1e9 / (double)ns[i] / (double)repeats;
    }
    printf("    \"avg_ns\": %.0f,\n    \"stddev_ns\": 0,\n    \"avg_ts\": %f,\n    \"stddev_ts\": 0.0,\n", mean, rates);
    printf("    \"samples_ns\": [ ");
    for (long i = 0; i < repeats; i++)
        printf("%s%ld", i ? ", " : "", ns[i]);
    printf(" ],\n    \"samples_ts\": [ ");
    for (long i = 0; i < repeats; i++)
        printf("%s%.6g", i ? ", " : "", (double)(prompt + generated) * 1e9 / (double)ns[i]);
    printf(" ]\n  }");
}

/* Two operations on the GPU, one of them wrong where it should be. */
static int operations(const char *wanted)
{
    int wrong = strcmp(wanted, "wrong") == 0;
    printf("Testing 2 devices\n\nBackend 1/2: MTL0\n  Device description: Apple Paravirtual device\n\n");
    printf("  ADD(type=f32): \033[1;32mOK\033[0m\n");
    if (wrong)
        printf("[MUL] ERR = 0.500000000 > 0.000000100   MUL(type=f32): \033[1;31mFAIL\033[0m\n  1/2 tests passed\n\n"
               "Failing tests:\n  MUL(type=f32)\n");
    else
        printf("  MUL(type=f32): \033[1;32mOK\033[0m\n  2/2 tests passed\n");
    printf("  Backend MTL0: %s\nBackend 2/2: CPU\n  Skipping CPU backend\n%d/2 backends passed\n%s\n", wrong ? "FAIL" : "OK",
           wrong ? 1 : 2, wrong ? "FAIL" : "OK");
    return wrong;
}

static int completion(const char *wanted)
{
    const char *tokens[] = {" one", " two", strcmp(wanted, "wrong") == 0 ? " four" : " three", "."};
    printf("{\"type\":\"log\",\"time\":1,\"level\":\"info\",\"msg\":\"sampler seed: 1\\n\"}\n");
    for (int i = 0; i < 4; i++)
        printf("{\"type\":\"log\",\"time\":1,\"level\":\"none\",\"msg\":\"%s\"}\n", tokens[i]);
    printf("{\"type\":\"log\",\"time\":1,\"level\":\"none\",\"msg\":\"\\n\\n\"}\n");
    return 0;
}

static int perplexity(const char *wanted)
{
    double scale = strcmp(wanted, "wrong") == 0 ? 3 : 1;
    fprintf(stderr, "perplexity: calculating perplexity over 2 chunks, n_ctx=512, batch_size=2048, n_seq=4\n");
    printf("[1]%.4f,[2]%.4f,\n", 5.0 * scale, 6.0 * scale);
    fprintf(stderr, "Final estimate: PPL = %.4f +/- 0.10000\n", 6.0 * scale);
    return 0;
}

int main(int count, char **words)
{
    struct answers answers = {0};
    long layers = option(count, words, "-ngl", -1), told = 0;
    const char *arm = "cpu", *wanted;
    int first = 1;
    if (layers != 0) {
        int heard = dup(2), nowhere = open("/dev/null", O_WRONLY);
        if (getenv("DO") && strcmp(getenv("DO"), "hush") == 0)
            dup2(nowhere, 2);
        Device device = MTLCreateSystemDefaultDevice();
        metal_answers(device, &answers);
        dup2(heard, 2);
        close(heard);
        close(nowhere);
        for (long family = 1001; family <= 1010; family++)
            if (metal_supports(device, family))
                told = family;
        arm = told >= 1006 || answers.memory > 32768 ? "override" : "stock";
    }
    wanted = wanted_for(arm, start_in(arm));
    if (strcmp(wanted, "slow") == 0)
        sleep(1);
    if (strcmp(wanted, "busy") == 0)
        add_an_hour();
    if (strcmp(wanted, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(wanted, "abort") == 0) {
        fprintf(stderr, "ggml-metal-ops.cpp:204: GGML_ASSERT(ne00 == 1) failed\n");
        return 134;
    }
    if (strcmp(wanted, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(wanted, "orphan") == 0 && fork() == 0)
        for (;;)
            pause();
    while (strcmp(wanted, "flood") == 0)
        if (printf("%4096s\n", "") < 0)
            return 1;
    if (layers != 0) {
        long said = strcmp(wanted, "family") == 0 ? 1005 : told;
        const char *simd = told >= 1007 ? "true" : "false";
        fprintf(stderr, "ggml_metal_device_init: GPU name:   MTL0 (%s)\n", is_bare() ? "Apple M1 Ultra" : "Apple Paravirtual device");
        fprintf(stderr, "ggml_metal_device_init: GPU family: MTLGPUFamilyApple%ld  (%ld)\n", said - 1000, said);
        fprintf(stderr, "ggml_metal_device_init: GPU family: MTLGPUFamilyCommon3 (3003)\n");
        fprintf(stderr, "ggml_metal_device_init: simdgroup reduction   = %s\n", simd);
        fprintf(stderr, "ggml_metal_device_init: simdgroup matrix mul. = %s\n", simd);
        fprintf(stderr, "ggml_metal_device_init: has bfloat            = %s\n", told >= 1006 ? "true" : "false");
    }
    if (has(count, words, "--answer")) {
        fprintf(stderr, "build: %s (standin) with cc\n", getenv("BUILD") ? getenv("BUILD") : "10167");
        printf("The capital of France is %s.\n", strcmp(wanted, "wrong") == 0 ? "Lyon" : "Paris");
        return 0;
    }
    if (count > 1 && strcmp(words[1], "test") == 0)
        return operations(wanted);
    if (has(count, words, "--log-jsonl"))
        return completion(wanted);
    if (has(count, words, "-f"))
        return perplexity(wanted);
    /* Family 7 is what makes it fast; more memory than 32 KiB gives a little on top. */
    double rate = layers == 0 ? 300 : told >= 1007 ? 2000 : 200;
    long prompt = option(count, words, "-p", 512), generated = option(count, words, "-n", 128);
    if (prompt > 0)
        test(count, words, prompt, 0, rate, wanted, &first);
    if (generated > 0)
        test(count, words, 0, generated, rate / 10, wanted, &first);
    printf("%s\n]\n", first ? "[" : "");
    return 0;
}
