// Buttons that show one token of one text in the viewer

for (const button of document.querySelectorAll("button.go")) button.onclick = async () => {
  const {view: number, query} = button.dataset;
  form = "words";
  await chooseView(Number(number));
  const words = panes[0].queries.children;
  words[pinned.index].tabIndex = -1;
  words[0].tabIndex = -1;
  words[query].tabIndex = 0;
  $("bar").scrollIntoView();
  words[query].focus({preventScroll: true});
  pin({side: "queries", index: Number(query)});
};
