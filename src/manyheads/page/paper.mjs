// The paper: claims with verdicts, and figures from published rows.
export function startPaper() {}
