// The idempotency key of a form: its `csrf` field, which differs in each rendered form. The server repeats its first
// response for the same key. So a form that stays on the page after success gets a new key, while a form that the reader
// leaves keeps its own: submitting it again after going back creates nothing new.
function bytesOf(key) {
  return Uint8Array.from(atob(key.replaceAll("-", "+").replaceAll("_", "/")), (sign) => sign.charCodeAt(0))
}

// The first half masks the second (`cookies.masked`).
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

// Whether both belong to the same session.
export const isAlike = (key, other) => String(secretOf(key)) === String(secretOf(other))

export function renewKey(form) {
  const field = form.elements.csrf
  if (field) field.value = anotherKey(field.value)
}

const taken = new Set()
const left = new Map() // the keys of forms that led to another page, by history entry and then by address
const entry = () => history.state?.turbo?.restorationIdentifier

const sent = new WeakMap() // the key with which a form was submitted
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
  if (left.get(entry())?.path === location.pathname && !restoring) left.delete(entry()) // still on the same page
})

// The page is reloaded, and its forms have new keys.
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
