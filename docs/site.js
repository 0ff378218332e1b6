// What mdBook leaves out for keyboards and screen readers.
for (const label of document.querySelectorAll("label[aria-label]")) label.setAttribute("role", "button");
// Code and tables that are wider than the page scroll; a keyboard reaches them only if they take the focus.
for (const box of document.querySelectorAll("pre > code, .table-wrapper")) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}
// An id such as GK-Q-4 stays on one line.
for (const cell of document.querySelectorAll("td:first-child")) {
  if (/^[A-Z]+(-[A-Z0-9]+)+$/.test(cell.textContent)) cell.style.whiteSpace = "nowrap";
}
