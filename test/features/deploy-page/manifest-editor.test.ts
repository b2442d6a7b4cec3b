import { readFileSync } from 'node:fs';
import { CompletionContext } from '@codemirror/autocomplete';
import { json } from '@codemirror/lang-json';
import { ensureSyntaxTree } from '@codemirror/language';
import { EditorState } from '@codemirror/state';
import { expect, it } from 'vitest';
import { completeFrom } from '../../../src/features/deploy-page/manifest-editor.ts';
import type { Schema } from '../../../src/features/deploy-page/schema-choices.ts';

const schema: Schema = JSON.parse(
  readFileSync(new URL('../../../manifests/manifest.schema.json', import.meta.url), 'utf8'),
);

/** The completions at the mark |, and the text that they replace. */
function completionAt(marked: string, explicit: boolean) {
  const pos = marked.indexOf('|');
  const doc = marked.replace('|', '');
  const state = EditorState.create({ doc, extensions: [json()] });
  ensureSyntaxTree(state, doc.length, 5000);
  const result = completeFrom(schema)(new CompletionContext(state, pos, explicit));
  return { doc, pos, result, names: (result?.options ?? []).map(({ displayLabel, label }) => displayLabel ?? label) };
}

it.each([
  ['{ "steps": { "a": { "| } } }', false, 'type'],
  ['{ "steps": { "a": { "ty| } } }', false, 'type'],
  ['{ "steps": { "a": { "|\n } } }', false, 'type'],
  ['{ "steps": { "a": { "type": "NoOp",\n "ru|\n } } }', false, 'runAfter'],
  ['{ "steps": { "a": { "|" } } }', false, 'type'],
  ['{ "steps": { "a": { | } } }', true, 'type'],
  ['{ "steps": { "a": {|} } }', true, 'type'],
  ['{ "steps": { "a": { "type": "NoOp", | } } }', true, 'runAfter'],
  ['{ "steps": { "a": { "type": "NoOp" , |', true, 'runAfter'],
  ['{ |', true, 'version'],
  ['{ "|', false, 'version'],
  ['|', true, undefined],
  ['{ "steps": { "a": { "type": | } } }', true, '"LogMessage"'],
  ['{ "steps": { "a": { "type":| } } }', true, '"LogMessage"'],
  ['{ "steps": { "a": { "type": "| } } }', false, '"LogMessage"'],
  ['{ "steps": { "a": { "type": "Lo|\n } } }', false, '"LogMessage"'],
  ['{ "steps": { "a": { "type": "Lo|', false, '"LogMessage"'],
  ['{ "steps": { "a": { "type": "|" } } }', false, '"LogMessage"'],
  ['{ "steps": { "a": { "type": "LogMessage", "inputs": { "| } } } }', false, 'message'],
  ['{ "steps": { "a": { "type": "LogMessage", "inputs": { | } } } }', true, 'message'],
  ['{ "steps": { "a": { "type": "LogMessage", "inputs": { "level": | } } } }', true, '"info"'],
  ['{ "steps": { "a": { "runAfter": { "b": ["|] } } } }', false, '"Succeeded"'],
  ['{ "steps": { "a": { "runAfter": { "b": [|] } } } }', true, '"Succeeded"'],
  ['{ "steps": { "a": { "runAfter": { "b": ["Failed", |] } } } }', true, '"Succeeded"'],
  [`{ "steps": { "a": { "inputs": { "url": "https://x/\${ru|" } } } }`, false, 'run.startedAt'],
  [`{ "steps": { "a": { "inputs": { "url": "\${trigger.|" } } } }`, false, 'trigger.scheduledFor'],
  [`{ "steps": { "a": { "inputs": { "url": "\${|" } }, "b-c": {} } }`, false, "steps['b-c'].output"],
  [
    `{ "steps": { "a": { "inputs": { "url": "\${wai|" } }, "ok": { "type": "WaitForSignal" } } }`,
    false,
    'waits.ok.url',
  ],
  [`{ "steps": { "a": { "inputs": { "url": "\${run.id} |" } } } }`, true, undefined],
  [`{ "steps": { "a": { "inputs": { "url": "costs $\${|" } } } }`, true, undefined],
  ['{ "triggers": { "h": { "type": "webhook", "inputs": { "webhookSl|\n } } } }', false, 'webhookSlug'],
] as const)('completes %j (asked for: %s) with %s', (marked, explicit, name) => {
  const { names } = completionAt(marked, explicit);
  if (name === undefined) expect(names).toEqual([]);
  else expect(names).toContain(name);
});

it.each([
  ['{ "steps": { "a": { "ty| } } }', '{ "steps": { "a": { "type":  } } }'],
  ['{ "steps": { "a": { "ty|" } } }', '{ "steps": { "a": { "type":  } } }'],
  ['{ "steps": { "a": { "ty|": 1 } } }', '{ "steps": { "a": { "type": 1 } } }'],
])('replaces what was typed of a name and its quotes, no more: %j', (marked, taken) => {
  const { doc, pos, result } = completionAt(marked, false);
  const option = result?.options.find(({ displayLabel }) => displayLabel === 'type');
  expect(doc.slice(0, result?.from) + String(option?.apply) + doc.slice(result?.to ?? pos)).toBe(taken);
});
