import {
  type DeployOutcome,
  FINDING_CLASSES,
  type Finding,
  type FindingClass,
  type Override,
} from '../model/finding.ts';
import type { Json } from '../model/json.ts';

const CLASSES = FINDING_CLASSES.toReversed();
/** Wide enough for a sentence, narrow enough for the code block of a pull request. */
const COLUMNS = 110;
const SHORT = 90;

/** The end of a command: its exit code, and its last line. */
export interface Conclusion {
  readonly code: 0 | 1 | 2;
  readonly line: string;
}

/**
 * A report for reviewers of changed manifests: flow by flow, the most severe findings first, the conclusion last. Plain
 * ASCII except for text from the manifests.
 */
export function renderOutcomes(outcomes: readonly DeployOutcome[], { line }: Conclusion): string {
  return `${[...outcomes.map(renderFlow), line].join('\n\n')}\n`;
}

/** Like `renderOutcomes`, for a completed deploy: the last line reports the result. */
export function renderDeployed(outcomes: readonly DeployOutcome[]): string {
  const parts = (['created', 'updated', 'unchanged', 'refused'] as const).flatMap((action) => {
    const number = outcomes.filter((outcome) => outcome.action === action).length;
    return number === 0 ? [] : [`${number} ${action}`];
  });
  return `${[...outcomes.map(renderFlow), `${countOf(outcomes)}: ${parts.join(', ') || 'nothing to deploy'}.`].join('\n\n')}\n`;
}

/** The conclusion of a check; manifests with errors have no outcome. */
export function concludeCheck(
  outcomes: readonly DeployOutcome[],
  allow: readonly Override[],
  errors: number,
): Conclusion {
  const code = errors > 0 ? 2 : codeOfCheck(outcomes, allow);
  const meaning =
    errors > 0
      ? 'a manifest has an error; a deploy of all changes nothing, and a service that starts goes on without that flow'
      : MEANINGS[code];
  const summary = outcomes.length === 0 ? '' : `${summaryOf(outcomes, allow)} `;
  return { code, line: `${summary}Exit code ${code}: ${meaning}.` };
}

/** The conclusion of a deploy or its dry run: 0 if nothing is refused, 1 if only for cautions, else 2. */
export function concludeDeploy(outcomes: readonly DeployOutcome[], allow: readonly Override[]): Conclusion {
  const refused = outcomes.filter(({ action }) => action === 'refused');
  const isCaution = (outcome: DeployOutcome) =>
    outcome.class === 'caution' && !isRollback(outcome, allow) && !isOpening(outcome, allow);
  const code = refused.length === 0 ? 0 : refused.every(isCaution) ? 1 : 2;
  const meaning =
    code === 0 ? 'nothing is refused' : code === 1 ? 'cautions are refused while runs are in flight' : MEANINGS[2];
  return { code, line: `${summaryOf(outcomes, allow)} Exit code ${code}: ${meaning}.` };
}

/** 0 if all is safe or allowed, 1 if there is a caution, 2 if something breaks or is refused for another reason. */
function codeOfCheck(outcomes: readonly DeployOutcome[], allow: readonly Override[]): 0 | 1 | 2 {
  const codes = outcomes.map((outcome) => {
    const { action, findings, runsInFlight } = outcome;
    const isOpen = (wanted: Override & FindingClass) =>
      !allow.includes(wanted) && findings.some((each) => each.class === wanted);
    if (isOpen('breaking') || isRollback(outcome, allow) || isOpening(outcome, allow)) return 2;
    // For example another flow has the slug: no class of finding covers this, and no `--allow` permits it.
    if (action === 'refused' && !(isOpen('caution') && runsInFlight > 0)) return 2;
    return isOpen('caution') ? 1 : 0;
  });
  return codes.includes(2) ? 2 : codes.includes(1) ? 1 : 0;
}

/** Whether it is refused because its manifest is an earlier revision. */
function isRollback({ action, rollbackTo }: DeployOutcome, allow: readonly Override[]): boolean {
  return action === 'refused' && rollbackTo !== undefined && !allow.includes('rollback');
}

/** Whether it is refused because an existing route would accept more. */
function isOpening({ action, routes }: DeployOutcome, allow: readonly Override[]): boolean {
  const isOpened = routes.some(({ access, before }) => access === 'wider' && before !== null);
  return action === 'refused' && isOpened && !allow.includes('access');
}

function renderFlow(outcome: DeployOutcome): string {
  const { name, flowId, action, findings, runsInFlight, warning } = outcome;
  const head = `${name} (${flowId}), ${versionsOf(outcome)}: ${headline(outcome)}`;
  if (warning !== undefined) return [head, ...paragraph('Warning: ', warning, '  ')].join('\n');
  const entrances = outcome.routes.flatMap(renderRoute);
  if (action === 'unchanged' || (action === 'created' && findings.length === 0)) return [head, ...entrances].join('\n');
  const facts = [
    ...refusalLines(outcome).flatMap((line, index) => paragraph(index === 0 ? 'Refused: ' : '         ', line, '  ')),
    `  ${runsInFlight === 0 ? 'No run is' : `${runsInFlight} ${runsInFlight === 1 ? 'run is' : 'runs are'}`} in flight.`,
    ...entrances,
  ];
  const groups = CLASSES.flatMap((each) => {
    const members = findings.filter((finding) => finding.class === each);
    return members.length === 0 ? [] : ['', `  ${each.toUpperCase()}`, ...members.flatMap(renderFinding)];
  });
  return [head, '='.repeat(Math.min(head.length, COLUMNS)), ...facts, ...groups].join('\n');
}

/** Accepted deliveries before and after. */
function renderRoute({ route, access, before, after, reasons }: DeployOutcome['routes'][number]): string[] {
  return [
    ...paragraph('', `Access to ${route} is ${access}: ${reasons.join(' ')}`, '  '),
    ...paragraph('before: ', before ?? 'no such route', '    '),
    ...paragraph('after:  ', after ?? 'no such route', '    '),
  ];
}

function headline({ action, class: gravest }: DeployOutcome): string {
  if (action === 'unchanged') return 'unchanged';
  if (action === 'created') return 'new';
  return `${gravest.toUpperCase()}${action === 'refused' ? ', refused' : ''}`;
}

/** Without the lines that the findings below repeat: their messages and recipes. */
function refusalLines({ refusal, findings }: DeployOutcome): string[] {
  const titles = new Set(findings.flatMap(({ recipe }) => (recipe === undefined ? [] : [`${recipe.title}:`])));
  const isSaidBelow = (line: string) => titles.has(line) || /^(- |\s+\d+\. )/.test(line);
  return (refusal ?? '').split('\n').filter((line) => line !== '' && !isSaidBelow(line));
}

function versionsOf({ version, revision, findings }: DeployOutcome): string {
  const change = findings.find(({ rule }) => rule === 'version-changed');
  const versions = typeof change?.before === 'string' ? `${change.before} -> ${version}` : version;
  return `version ${versions}${revision === null ? '' : `, revision ${revision}`}`;
}

function renderFinding(finding: Finding): string[] {
  const { path, rule, message, consequence, live, advice, recipe } = finding;
  return [
    `  - ${path} (${rule})`,
    ...paragraph('', message, '    '),
    ...renderChange(finding),
    ...paragraph('Consequence: ', consequence, '    '),
    ...(live === undefined ? [] : paragraph('In flight:   ', live, '    ')),
    ...(advice === undefined ? [] : paragraph('Advice:      ', advice, '    ')),
    ...(recipe === undefined ? [] : renderRecipe(recipe)),
  ];
}

/** Old and new value, each cut to a line. */
export function renderChange({ before, after }: Pick<Finding, 'before' | 'after'>): string[] {
  if (before === undefined && after === undefined) return [];
  const both = `${short(before)} -> ${short(after)}`;
  if (both.length <= SHORT) return [`    ${both}`];
  return [`    ${short(before)}`, `    -> ${short(after)}`];
}

function short(value: Json | undefined): string {
  if (value === undefined) return '(none)';
  const text = JSON.stringify(value);
  return text.length <= SHORT ? text : `${text.slice(0, SHORT - 3)}...`;
}

function renderRecipe({ title, steps, patch }: NonNullable<Finding['recipe']>): string[] {
  return [
    ...paragraph('Recipe:      ', title, '    '),
    ...steps.flatMap((step, index) => paragraph(`${index + 1}. `, step, '      ')),
    ...(patch === undefined
      ? []
      : [
          '      Merge into the manifest:',
          ...JSON.stringify(patch, null, 2)
            .split('\n')
            .map((line) => `      ${line}`),
        ]),
  ];
}

/** Wraps words; later lines begin under the first word. */
function paragraph(label: string, text: string, indent: string): string[] {
  const hanging = indent + ' '.repeat(label.length);
  const lines: string[] = [];
  let line = indent + label;
  let isEmpty = true;
  for (const word of text.split(/\s+/)) {
    if (!isEmpty && line.length + 1 + word.length > COLUMNS) {
      lines.push(line);
      line = hanging;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line];
}

const MEANINGS = {
  0: 'can be deployed at any time',
  1: 'a deploy applies cautions only while no run of the flow is in flight; otherwise it refuses them',
  2: 'a deploy refuses breaking changes, conflicts and wider access',
} as const;

function summaryOf(outcomes: readonly DeployOutcome[], allow: readonly Override[]): string {
  const changed = outcomes.filter(({ action }) => action !== 'unchanged');
  const counts = CLASSES.flatMap((each) => {
    const number = changed.filter((outcome) => outcome.class === each).length;
    return number === 0 ? [] : [`${number} ${each}${each !== 'safe' && allow.includes(each) ? ' (allowed)' : ''}`];
  });
  const unchanged = outcomes.length - changed.length;
  const parts = [...counts, ...(unchanged === 0 ? [] : [`${unchanged} unchanged`])];
  return `${countOf(outcomes)}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}.`;
}

function countOf(outcomes: readonly DeployOutcome[]): string {
  return `${outcomes.length} ${outcomes.length === 1 ? 'flow' : 'flows'}`;
}
