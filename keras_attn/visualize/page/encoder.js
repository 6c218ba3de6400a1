// Buttons that show one token of one text in the viewer

for (const button of document.querySelectorAll("button.go")) button.onclick = () => {
  const {view: number, query} = button.dataset;
  $("views").value = number;
  chooseView(Number(number));
  const words = chips.queries.children;
  words[0].tabIndex = -1;
  words[query].tabIndex = 0;
  $("bar").scrollIntoView();
  words[query].focus({preventScroll: true});
  pin({side: "queries", index: Number(query)});
};
