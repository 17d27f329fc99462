"""The Git side: a `post-receive` hook that records each push, and a sender that publishes it as `push` events.

    push ─▶ hooks/post-receive ─▶ hook.post_receive: one file in GIT_DIR/workhook/spool, durable ─▶ the push returns
                                        └▶ a detached sender.send_pending: payload ▸ POST …/events ▸ 202 ▸ file removed

Other areas call `install.install`, `hook.post_receive` and `sender.send_pending`. This module imports nothing, and
`hook` only light modules of the standard library, because every push waits for them.
"""
