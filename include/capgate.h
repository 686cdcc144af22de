/* capgate: asks whether this process may see other answers of its GPU, and which.
 *
 * Made from the code by `cargo xtask header`. */

#ifndef CAPGATE_H
#define CAPGATE_H

#include <stdint.h>

/*
 Apple's own answers stay.
 */
#define CAPGATE_STOCK 0

/*
 The answers may be changed, once `capgate_device` agrees.
 */
#define CAPGATE_GRANTED 1

/*
 One decision about this process. Its address means nothing to anybody but these functions.
 */
struct Capgate;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of the library, such as "0.1.0". Never null.
 */
const char *capgate_version(void);

/*
 What the last call in this thread that failed had to say; empty where none did. Valid until this thread's next call.
 Never null.
 */
const char *capgate_last_error(void);

/*
 Decides about this process with the state of `prefix`, an absolute path, after the same checks that the injected
 library makes, and logs it. Null only where that could not be done; a refusal is a decision too.

 `prefix` is null or a text that ends in a zero byte.
 */
struct Capgate *capgate_open(const char *prefix);

/*
 `CAPGATE_GRANTED` or `CAPGATE_STOCK`, as it was decided when the handle was opened.
 */
int capgate_decision(const struct Capgate *handle);

/*
 The code of the reason for stock answers, such as "no-profile"; empty for a grant, "not-open" for what is no open
 handle. Valid until the handle is closed. Never null.
 */
const char *capgate_reason(const struct Capgate *handle);

/*
 The facts behind the reason, for people. Valid until the handle is closed. Never null.
 */
const char *capgate_detail(const struct Capgate *handle);

/*
 The id of the profile that it is about; empty where there is none. Valid until the handle is closed. Never null.
 */
const char *capgate_profile(const struct Capgate *handle);

/*
 The granted Apple family, such as 1009; 0 for stock.
 */
uint64_t capgate_apple_family_max(const struct Capgate *handle);

/*
 The granted threadgroup memory in bytes; 0 for stock.
 */
uint64_t capgate_max_threadgroup_memory(const struct Capgate *handle);

/*
 Judges a device as it is made, by its own answers: the highest Apple family that it names (0 for none) and its
 threadgroup memory in bytes. Logs it. `CAPGATE_GRANTED` where the answers may be changed; once one device was
 refused, none is changed any more.

 `name` is null or a text that ends in a zero byte.
 */
int capgate_device(const struct Capgate *handle,
                   const char *name,
                   uint64_t apple_family,
                   uint64_t max_threadgroup_memory);

/*
 What `supportsFamily:` may answer for `family` on a device whose own answer is `own`: 0 or 1. An own answer that is not
 what the profile was tested against stays.
 */
int capgate_supports_family(const struct Capgate *handle,
                            int64_t family,
                            int own);

/*
 What `maxThreadgroupMemoryLength` may answer on a device whose own answer is `own` bytes: `own` itself where that is not
 what the profile was tested against.
 */
uint64_t capgate_threadgroup_memory(const struct Capgate *handle,
                                    uint64_t own);

/*
 Closes a decision. From then on its handle is none, and its texts are gone.
 */
void capgate_close(struct Capgate *handle);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CAPGATE_H */
