import './installed.ts';
import { createJiti } from 'jiti';

export { TextDocument } from 'vscode-languageserver-textdocument';

// It imports JSON without an import attribute, which Node refuses.
export const { validate } = await createJiti(import.meta.url).import<typeof import('@actions/languageservice')>(
  '@actions/languageservice',
);
