#pragma once
/*
 * Which BPF programs a process has open, by the kernel's list of its descriptors.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/* Programs that the process has open. */
static inline size_t programs_of(pid_t pid, uint32_t *ids, size_t room)
{
        char path[300], line[128];
        size_t count = 0;
        snprintf(path, sizeof path, "/proc/%d/fdinfo", pid);
        DIR *folder = opendir(path);
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
                snprintf(path, sizeof path, "/proc/%d/fdinfo/%s", pid, entry->d_name);
                FILE *file = fopen(path, "re");
                while (file && fgets(line, sizeof line, file))
                        if (sscanf(line, "prog_id: %u", &ids[count]) == 1 && count + 1 < room)
                                count++;
                if (file)
                        fclose(file);
        }
        if (folder)
                closedir(folder);
        return count;
}
