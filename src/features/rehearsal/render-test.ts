import { renderChange } from '../../commands/render-outcomes.ts';
import type { TestResult } from './run-test.ts';

type Differing = Extract<TestResult, { kind: 'differs' }>;

/** An updated test also reports what differed. */
export type RunTestFile = TestResult | ({ readonly kind: 'updated' } & Pick<Differing, 'differences'>);

/** The result of a test: its kind and name, then at least one line for each difference. */
export function renderTest(name: string, outcome: RunTestFile): string {
  return [`${outcome.kind.padEnd(8)} ${name}`, ...linesOf(outcome)].join('\n');
}

function linesOf(outcome: RunTestFile): string[] {
  switch (outcome.kind) {
    case 'same':
      return [];
    case 'error':
      return outcome.problems.map(lineOf);
    case 'updated':
      return outcome.differences.flatMap(renderDifference);
    case 'differs':
      return [...outcome.differences.flatMap(renderDifference), ...outcome.lacking.map(lineOf)];
  }
}

const lineOf = ({ path, message }: Differing['lacking'][number]) => `  ${`${path} ${message}`.trim()}`;

export function renderDifference({ path, ...change }: Differing['differences'][number]): string[] {
  return [`  ${path}`, ...renderChange(change)];
}
