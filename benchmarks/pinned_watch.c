/* Notes every call of the CUDA driver that pins or frees host memory; see pinned_watch.py.

   words: how many entries there are, then (call, address, bytes) of each. MOST and the numbers of
   calls that register and free are given on the command line of the compiler. No lock is taken:
   it runs on whichever thread calls. */

#include <stdint.h>

struct data { /* the first fields of CUpti_CallbackData */
    int32_t site; /* 1 on the way out of the call */
    const char *name;
    const uintptr_t *params; /* the call's arguments, a word each */
    const int32_t *result;
};

static int in(uint32_t call, const uint32_t *calls, int count) {
    for (int k = 0; k < count; k++)
        if (calls[k] == call)
            return 1;
    return 0;
}

void note(int64_t *words, int32_t domain, uint32_t call, const struct data *given) {
    static const uint32_t registering[] = {REGISTER}, freeing[] = {FREE};
    int registers = in(call, registering, sizeof registering / sizeof *registering);
    int frees = in(call, freeing, sizeof freeing / sizeof *freeing);
    (void)domain;
    if (given->site != 1 || *given->result != 0)
        return;
    uintptr_t address = given->params[0];
    if (!registers && !frees)
        address = *(const uintptr_t *)address; /* where the driver has put the new memory's address */
    int64_t at = __atomic_fetch_add(words, 1, __ATOMIC_SEQ_CST);
    if (at < MOST) {
        int64_t *entry = words + 1 + at * 3;
        entry[0] = call;
        entry[1] = (int64_t)address;
        entry[2] = frees ? 0 : (int64_t)given->params[1];
    }
}
