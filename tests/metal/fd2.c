#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "Metal.h"
int main(int c, char **w)
{
    int fd = open(w[1], O_CREAT | O_WRONLY, 0600);
    if (write(fd, "DATA\n", 5) != 5) return 9;
    metal_create("AppleParavirtDevice");
    printf("fd %d\n", fd);
    return 0;
}
