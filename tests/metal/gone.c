#include <stdio.h>
#include <unistd.h>
#include "Metal.h"
int main(int c, char **w)
{
    if (truncate(w[1], 0)) return 9;
    metal_create("AppleParavirtDevice");
    puts("alive");
    return 0;
}
