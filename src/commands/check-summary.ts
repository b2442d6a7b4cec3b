import type { DeployOutcome } from '../model/finding.ts';
import type { Conclusion } from './render-outcomes.ts';

// GitHub accepts a comment of at most 65 536 characters; the rest is for the table, and for a frame around the text.
const MAX_TEXT = 40_000;
const MAX_ROWS = 100;
const MAX_NAME = 80;

interface Result {
  readonly outcomes: readonly DeployOutcome[];
  /** The number of manifests that cannot be deployed. */
  readonly errors: number;
  /** The output of the command. */
  readonly text: string;
  readonly conclusion: Conclusion;
}

/**
 * The result of a check as Markdown, for example for a comment on a pull request. Names from manifests and services are
 * always code, so they are neither links nor mentions of people.
 */
export function checkSummary({ outcomes, errors, text, conclusion }: Result): string {
  const changed = outcomes.filter(({ action }) => action !== 'unchanged');
  const rows = changed.slice(0, MAX_ROWS).map(rowOf);
  const left = changed.length - rows.length;
  const table = [
    '| flow | change | runs in flight | who gets in |',
    '|---|---|---|---|',
    ...rows,
    ...(left > 0 ? [`| ${left} more | | | |`] : []),
  ];
  return [
    `### ${headingOf(changed, errors)}`,
    ...(changed.length === 0 ? [] : [table.join('\n')]),
    conclusion.line,
    `<details>\n<summary>What changes, and what to do</summary>\n\n${fenced(cut(text.trimEnd()))}\n\n</details>\n`,
  ].join('\n\n');
}

function headingOf(changed: readonly DeployOutcome[], errors: number): string {
  const gravest = (['breaking', 'caution'] as const).find((each) => changed.some((outcome) => outcome.class === each));
  const isWider = changed.some(({ access }) => access === 'wider');
  const refused = changed.filter(({ action }) => action === 'refused').length;
  const parts = [
    ...(errors === 0 ? [] : [errors === 1 ? 'an error' : `${errors} errors`]),
    ...(gravest === undefined ? [] : [`${gravest} changes`]),
    ...(isWider ? ['more get in'] : []),
    ...(refused === 0 ? [] : [`${refused} of ${changed.length} refused`]),
  ];
  return `Sluice: ${parts.join(', ') || (changed.length === 0 ? 'nothing to deploy' : 'safe to deploy')}`;
}

function rowOf({ name, action, class: gravest, runsInFlight, access }: DeployOutcome): string {
  const change = action === 'created' ? 'new' : action === 'refused' ? `${gravest}, refused` : gravest;
  return `| ${code(name.slice(0, MAX_NAME))} | ${strong(change, gravest !== 'safe')} | ${runsInFlight} | ${strong(access, access === 'wider')} |`;
}

const strong = (text: string, isStrong: boolean) => (isStrong ? `**${text}**` : text);

/** A code span in a cell of a table. */
function code(text: string): string {
  const line = text.replace(/\s+/g, ' ').replaceAll('|', '\\|');
  const ticks = '`'.repeat(longestRun(line) + 1);
  return `${ticks} ${line} ${ticks}`;
}

function fenced(text: string): string {
  const ticks = '`'.repeat(Math.max(3, longestRun(text) + 1));
  return `${ticks}text\n${text}\n${ticks}`;
}

function longestRun(text: string): number {
  return Math.max(0, ...(text.match(/`+/g) ?? []).map(({ length }) => length));
}

function cut(text: string): string {
  if (text.length <= MAX_TEXT) return text;
  const whole = text.slice(0, MAX_TEXT).split('\n').slice(0, -1);
  return `${whole.join('\n')}\n… ${text.split('\n').length - whole.length} more lines: run \`sluice check\` yourself`;
}
