import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runFlow } from '../../src/features/rehearsal/testing.ts';
import type { Json } from '../../src/model/json.ts';
import { ROOT } from './pages.ts';

const page = readFileSync(join(ROOT, 'docs/approvals.md'), 'utf8');
const [manifest = {}, output = {}] = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(([, text = '']) =>
  JSON.parse(text),
);

it.each([
  ['approve', 'Succeeded'],
  ['reject', 'Skipped'],
] as const)('the flow of the page about approvals sends a link, and goes by the answer %s', async (choice, deploy) => {
  const sent: Json[] = [];
  const HttpRequest = ({ inputs }: { readonly inputs: Json }) => {
    sent.push(inputs);
    return { status: 200 };
  };
  const approval = { ...output, choice };
  const run = await runFlow(manifest, { body: { sha: 'a1b2' }, handlers: { HttpRequest }, signals: { approval } });
  const link = 'https://sluice.invalid/flows/api/webhook/answers/approval';
  expect(sent).toMatchObject([{ body: { text: `Deploy a1b2? ${link}` } }]);
  expect(run.steps).toMatchObject({ approval: { output: approval }, deploy: { status: deploy } });
});
