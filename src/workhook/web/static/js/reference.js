// The reference of the API: Swagger UI over /openapi.json. Added here: samples, names for fields that have none, the
// address of an operation (/docs#create_task), and the reader's theme.
import { Controller } from "stimulus"
import { samples } from "workhook/samples"

const dark = matchMedia("(prefers-color-scheme: dark)")

export default class extends Controller {
  static targets = ["waiting"]

  connect() {
    this.followTheme()
    dark.addEventListener("change", this.followTheme)
    this.observer = new MutationObserver(() => this.mend())
    const place = document.createElement("div")
    this.element.append(place)
    this.ui = window.SwaggerUIBundle({
      url: "/openapi.json", domNode: place, docExpansion: "none", filter: true, validatorUrl: null,
      defaultModelsExpandDepth: -1, persistAuthorization: false, syntaxHighlight: { activated: false },
      requestInterceptor: (request) => Object.assign(request, { credentials: "omit" }), // a token counts, never a cookie
      plugins: [samples, plainLinks], onComplete: () => this.complete(),
    })
  }

  disconnect() {
    dark.removeEventListener("change", this.followTheme)
    removeEventListener("hashchange", this.opened)
    this.observer.disconnect()
  }

  complete() {
    this.waitingTarget.remove()
    this.observer.observe(this.element, { childList: true, subtree: true })
    this.mend()
    this.opened = () => this.open(location.hash.slice(1))
    addEventListener("hashchange", this.opened)
    this.opened()
  }

  // Opens the operation that the address names.
  open(name) {
    for (const [path, item] of Object.entries(this.ui.specSelectors.specJson().toJS().paths)) {
      for (const [method, operation] of Object.entries(item)) {
        if (operation.operationId !== name) continue
        const [tag] = operation.tags
        this.ui.layoutActions.show(["operations-tag", tag], true)
        this.ui.layoutActions.show(["operations", tag, name], true)
        return this.whenThere(`operations-${tag.replace(/\s/g, "_")}-${name}`)
      }
    }
  }

  whenThere(id) {
    const found = document.getElementById(id)
    if (!found) return requestAnimationFrame(() => this.element.isConnected && this.whenThere(id))
    found.scrollIntoView()
    found.querySelector("button")?.focus({ preventScroll: true })
  }

  // Fields without a label are named by the heading of their row or part.
  mend() {
    for (const field of this.element.querySelectorAll("select, textarea, input")) {
      if (field.labels?.length || field.hasAttribute("aria-label")) continue
      field.setAttribute("aria-label", nameOf(field))
    }
    for (const scrolled of this.element.querySelectorAll("pre:not([tabindex])")) scrolled.tabIndex = 0
  }

  followTheme = () => {
    const theme = document.documentElement.dataset.theme
    document.documentElement.classList.toggle("dark-mode", theme ? theme === "dark" : dark.matches)
  }
}

function nameOf(field) {
  if (field.id === "servers") return "Server"
  if (field.classList.contains("operation-filter-input")) return "Filter by tag"
  const row = field.closest("[data-param-name]")
  if (row) return row.dataset.paramName
  return field.matches("select") ? "Media type or example" : field.placeholder || "Value"
}

// The heading of an operation is a button: a link in it would be a control in a control.
function plainLinks({ React }) {
  return { components: { DeepLink: ({ text }) => React.createElement("span", null, text) } }
}
