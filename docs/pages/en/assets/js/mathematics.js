// Draws the equations, which arithmatex writes as \(…\) and \[…\].
document.addEventListener("DOMContentLoaded", function () {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const source = element.textContent.trim();
    katex.render(source.slice(2, -2), element, {
      displayMode: source.startsWith("\\["),
      throwOnError: false,
    });
  }
});
