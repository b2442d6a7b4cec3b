import { basename } from 'node:path';
import type { Manifest, ManifestSnapshot, WebhookTrigger } from '../model/manifest.ts';
import { checkGraph } from './check-graph.ts';
import { type Draft, draftManifest } from './draft.ts';
import type { ManifestIssue, Problem } from './issues.ts';
import { readJson } from './json-text.ts';
import { canonicalKeys } from './keys.ts';
import { hashOf, snapshotOf } from './secrets.ts';
import type { StepRules } from './step-inputs.ts';
import { checkGates, resolveTriggerSecrets } from './webhook-checks.ts';

/** A manifest that may be deployed. */
export interface LoadedFlow {
  readonly file: string;
  /** Secrets as written: never stored, shown or logged. */
  readonly manifest: Manifest;
  /** References kept, literal secrets masked. */
  readonly snapshot: ManifestSnapshot;
  /** Hex SHA-256 of the snapshot. */
  readonly hash: string;
  /** In manifest order, keys resolved. */
  readonly webhooks: readonly Omit<WebhookTrigger, 'revision'>[];
}

export interface ManifestRules extends StepRules {
  /** Warnings that weaken a gate are errors. */
  readonly strict: boolean;
  /** What rooms that this one does not know have to say, in canonical paths. */
  readonly checks: readonly ManifestCheck[];
}

/** Checks what of a flow could be read; steps and triggers with errors of their own may be missing. */
export type ManifestCheck = (flow: LoadedFlow) => readonly Omit<ManifestIssue, 'file'>[];

/** Reads one manifest. All its issues are reported; there is a flow where none of them is an error. */
export function parseManifest(
  text: string,
  file: string,
  rules: ManifestRules,
): { flow: LoadedFlow | undefined; issues: ManifestIssue[] } {
  const { flow, isFit, issues } = readManifest(text, file, rules);
  return { flow: isFit ? flow : undefined, issues };
}

/** A manifest as far as it could be read. */
export interface ReadManifest {
  /** Undefined where it has no id; not to be deployed unless it is fit. */
  readonly flow: LoadedFlow | undefined;
  readonly isFit: boolean;
  readonly issues: ManifestIssue[];
  /** Turns a canonical path into the path as spelled in the file. */
  readonly spell: (path: string) => string;
}

export function readManifest(text: string, file: string, rules: ManifestRules): ReadManifest {
  const json = readJson(text);
  const canonical = canonicalKeys(json.value);
  const { flow, problems } =
    json.value === undefined
      ? { flow: undefined, problems: [] }
      : loadDraft(draftManifest(canonical.value), file, rules);
  const spelled = problems.map((problem) => ({ ...problem, path: canonical.spell(problem.path) }));
  const issues = [...json.problems, ...canonical.problems, ...spelled].map((problem) => ({
    file,
    ...judge(problem, rules.strict),
  }));
  const isFit = issues.every((issue) => issue.severity !== 'error');
  return { flow, isFit, issues, spell: canonical.spell };
}

function judge(problem: Problem, isStrict: boolean): Problem {
  return isStrict && problem.weakensGate === true ? { ...problem, severity: 'error' } : problem;
}

function loadDraft(
  draft: Draft,
  file: string,
  rules: ManifestRules,
): { flow: LoadedFlow | undefined; problems: readonly Problem[] } {
  const { header, triggers, steps } = draft;
  const known = { graph: steps, stepKeys: draft.stepKeys };
  const problems = [...draft.problems];
  problems.push(...checkGraph({ ...known, path: ['steps'], outer: [] }, rules));

  const name = header?.name ?? basename(file, '.json');
  const webhooks: Omit<WebhookTrigger, 'revision'>[] = [];
  for (const [triggerKey, trigger] of Object.entries(triggers)) {
    if (trigger.type !== 'webhook') continue;
    const { inputs } = trigger;
    const path = ['triggers', triggerKey, 'inputs'];
    const { problems: secretProblems, ...secrets } = resolveTriggerSecrets(inputs, path, rules.readSecret);
    problems.push(...checkGates(inputs, path), ...secretProblems);
    webhooks.push({ flowId: header?.id ?? '', flowName: name, triggerKey, inputs, ...secrets });
  }
  if (header === undefined) return { flow: undefined, problems };

  const { id, version, timeoutSeconds } = header;
  const deadline = timeoutSeconds === undefined ? {} : { timeoutSeconds };
  const manifest: Manifest = { id, name, version, ...deadline, triggers, steps };
  const snapshot = snapshotOf(manifest, (stepType) => rules.handlers.get(stepType)?.secretInputs ?? []);
  const flow = { file, manifest, snapshot, hash: hashOf(snapshot), webhooks };
  const refused = new Set(problems.filter(({ severity }) => severity === 'error').map(({ path }) => path));
  // What is refused already needs no second opinion on the same place.
  const opinions = rules.checks.flatMap((check) => check(flow)).filter(({ path }) => !refused.has(path));
  return { flow, problems: [...problems, ...opinions] };
}
