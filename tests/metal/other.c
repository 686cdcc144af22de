/* A program with the example shim of docs/examples in it: what it is told before and after. */
#include <stdio.h>

#include "Metal.h"
#include "capgate.h"

void other_shim_start(Class type_of_device);

int main(int count, char **words)
{
    struct answers answers;
    (void)count;
    other_shim_start(objc_getClass("FullDevice"));
    metal_answers(metal_create(words[1]), &answers);
    printf("%s ", words[1]);
    for (int i = 0; i < FAMILIES; i++)
        if (answers.supports[i])
            printf("%ld,", metal_families[i]);
    printf(" %lu\n", answers.memory);
    return 0;
}
