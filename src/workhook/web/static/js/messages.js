// Messages over a page. What lies over the page has its own place for them. A template of the page holds each, with its
// id as `data-told`.
function place() {
  return document.querySelector("dialog[open] .toasts") ?? document.querySelector(".toasts")
}

// Shows what the template with this id holds, once.
export function tell(id) {
  const template = document.getElementById(id)
  if (!template || !place() || place().querySelector(`[data-told=${id}]`)) return
  place().append(template.content.firstElementChild.cloneNode(true))
}

export function forget(messages) {
  for (const each of document.querySelectorAll(messages)) each.remove()
}
