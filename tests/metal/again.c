#include <stdio.h>
#include "Metal.h"
int main(int c, char **w)
{
    void *seen[40];
    for (int i = 0; i < 40; i++) {
        Device device = metal_create(w[1]);
        for (int j = 0; j < i; j++)
            if (seen[j] == (void *)device) {
                puts("an address was used again");
                return 0;
            }
        seen[i] = device;
        object_dispose(device);
    }
    puts("never");
    return 0;
}
