const COMMENTS = /"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g;
const LAST_COMMAS = /"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|,(?=\s*[}\]])/g;

/** A manifest with spaces for its comments and the commas at ends, which the service takes: every place stays as it was. */
export function strictJson(text: string): string {
  const blank = (found: string) => (found.startsWith('"') ? found : found.replace(/[^\n]/g, ' '));
  return text.replace(COMMENTS, blank).replace(LAST_COMMAS, blank);
}
