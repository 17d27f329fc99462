// What a form that makes something is known by: the text of its field `csrf`, another one each time the form is made. The
// server answers the same form with the same text as it did the first time, and makes nothing. So a form that stays in
// the page after it was taken gets another text. A form that the reader leaves keeps its own, so going back sends it again.
function bytesOf(key) {
  return Uint8Array.from(atob(key.replaceAll("-", "+").replaceAll("_", "/")), (sign) => sign.charCodeAt(0))
}

// The first half hides the second (`cookies.masked`).
function secretOf(key) {
  const bytes = bytesOf(key)
  const half = bytes.length / 2
  return bytes.subarray(half).map((byte, at) => byte ^ bytes[at])
}

export function anotherKey(key) {
  const secret = secretOf(key)
  const pad = crypto.getRandomValues(new Uint8Array(secret.length))
  const text = String.fromCharCode(...pad, ...secret.map((byte, at) => byte ^ pad[at]))
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")
}

// Whether both are of one session.
export const isAlike = (key, other) => String(secretOf(key)) === String(secretOf(other))

export function renewKey(form) {
  const field = form.elements.csrf
  if (field) field.value = anotherKey(field.value)
}

const taken = new Set()
const left = new Map() // the keys of forms that led to another page: by the entry of the history, then by their address
const entry = () => history.state?.turbo?.restorationIdentifier

const sent = new WeakMap() // what a form was known by when it was sent
document.addEventListener("turbo:submit-start", (event) => sent.set(event.target, event.target.elements.csrf?.value))
document.addEventListener("turbo:submit-end", (event) => {
  const form = event.target
  const key = sent.get(form)
  if (!event.detail.success || !key) return
  taken.add(form)
  if (!left.has(entry())) left.set(entry(), { path: location.pathname, keys: new Map() })
  left.get(entry()).keys.set(form.getAttribute("action"), key)
})

for (const rendered of ["turbo:render", "turbo:frame-render"]) document.addEventListener(rendered, () => {
  for (const form of taken) if (form.isConnected) renewKey(form)
  taken.clear()
  if (left.get(entry())?.path === location.pathname && !restoring) left.delete(entry()) // the page has stayed
})

// The page is asked for anew, and its forms have other keys.
let restoring = false
document.addEventListener("turbo:visit", (event) => { restoring = event.detail.action === "restore" })
document.addEventListener("turbo:load", () => {
  const keys = restoring ? left.get(entry())?.keys ?? new Map() : new Map()
  restoring = false
  for (const form of document.forms) {
    const key = keys.get(form.getAttribute("action"))
    if (key && isAlike(key, form.elements.csrf.value)) form.elements.csrf.value = key
  }
})
