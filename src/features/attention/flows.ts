import { type Finding, iso, nameOf, type Situation } from '../../dashboard/attention/finding.ts';
import { whatLacking, whatUnreadable } from '../../deploys/unreadable.ts';
import { type DeployedFlow, startsRuns } from '../../flows/catalog.ts';
import { ATTENTION, type Severity } from '../../model/attention.ts';
import { DAY_MS } from '../../model/clock.ts';
import { subFlowsOf } from '../../model/manifest.ts';
import { presetConcerns } from '../../webhooks/checks.ts';
import { missingKey } from '../../webhooks/learned-keys.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';

/** One for each noted manifest of the folder, each other flow that lacks something, and each trigger of the rest. */
export function unreadableFlows({
  flows,
  unreadable,
  isServed,
  lacking,
  apart,
}: Situation): Finding<'manifest_unreadable'>[] {
  const find = (flowId: string | undefined) => flows.find(({ record }) => record.id === flowId);
  const item = (message: string, link: string, about: Pick<Finding, 'flowId' | 'triggerKey' | 'about'> = {}) =>
    ({ kind: 'manifest_unreadable', message, link, ...about }) as const;
  const ofFolder = unreadable.map((manifest) => {
    const flow = find(manifest.flowId);
    // The file distinguishes two manifests without a page.
    const link =
      flow === undefined ? `/flows/flows#${encodeURIComponent(manifest.file)}` : `/flows/flows/${flow.record.id}`;
    return item(whatUnreadable(manifest, { find, isServed }), link, { about: manifest.file });
  });
  const told = new Set(unreadable.map(({ flowId }) => flowId));
  const others = flows.flatMap(({ record: { id, name }, loaded }) => {
    if (loaded.unreadable !== undefined)
      return told.has(id) ? [] : [item(whatLacking(name, loaded.unreadable), `/flows/flows/${id}`)];
    return (loaded.unserved ?? []).map(({ triggerKey, why }) =>
      item(`${name}/${triggerKey} answers every delivery with 503: ${why}`, `/flows/flows/${id}`, { triggerKey }),
    );
  });
  // Includes steps of older revisions, which have runs in flight.
  const ofSteps = lacking.flatMap(({ flowId, runId, why }) => {
    const isTold = find(flowId)?.loaded.unreadable !== undefined;
    return isTold
      ? []
      : [
          item(`Steps of ${nameOf(flowId, flows)} wait for a secret: ${why}`, `/flows/runs/${runId}`, {
            flowId,
            about: 'secret',
          }),
        ];
  });
  const ofSlugs = apart.map(({ slug, flowId, triggerKey, why }) =>
    item(`Every delivery to ${slug} gets 503: ${why}`, `/flows/flows/${flowId}`, { triggerKey, about: slug }),
  );
  return [...ofFolder, ...others, ...ofSteps, ...ofSlugs];
}

export function triggerItems(
  prepared: PreparedTrigger,
  { now, newKeys }: Situation,
): Finding<'trigger_not_enforced' | 'preset_doubtful' | 'key_set_changed'>[] {
  const { trigger, mode } = prepared;
  const { flowId, triggerKey } = trigger;
  const name = `${trigger.flowName}/${triggerKey}`;
  const where = { link: `/flows/flows/${flowId}`, flowId, triggerKey };
  const open = whyOpen(prepared);
  // Another mode is a choice; a trigger that enforces but verifies nothing may be a mistake.
  const severity: Severity = mode === 'Enforce' ? ATTENTION.trigger_not_enforced : 'info';
  return [
    ...(open === undefined
      ? []
      : [{ kind: 'trigger_not_enforced' as const, severity, message: `${name} ${open}`, ...where }]),
    ...presetConcerns(trigger.inputs, now).map(({ field, concern }) => ({
      kind: 'preset_doubtful' as const,
      message: `${name}: ${concern}`,
      ...where,
      about: field,
    })),
    ...newKeys
      .filter(({ url, at }) => url === trigger.inputs.webhookJwksUrl && now - at < DAY_MS)
      .map(({ id, fingerprint, at }) => ({
        kind: 'key_set_changed' as const,
        message: `${name}: a key is new in its key set since ${iso(at)} (${id === null ? 'without an id' : `id ${id}`}, fingerprint ${fingerprint}), and what it signs is accepted. Nothing to do if the publisher changed its keys`,
        ...where,
        about: fingerprint,
      })),
  ];
}

/** The problem of a trigger that does not refuse unverified deliveries; undefined if there is none. */
function whyOpen({ trigger, mode, schemeName, lacksKey, keySlot }: PreparedTrigger): string | undefined {
  const named = trigger.inputs.webhookSignatureScheme;
  const unsigned = named === undefined ? 'it checks no signature' : `its scheme "${named}" is unknown`;
  const lack = schemeName === null ? unsigned : lacksKey ? `it has ${missingKey(keySlot)}` : undefined;
  if (mode !== 'Enforce') {
    const more = lack === undefined ? '' : `, and ${lack}`;
    return `accepts every delivery, even if a gate fails, because its mode is ${mode}${more}`;
  }
  if (lack === undefined) return undefined;
  return schemeName === null ? `does not verify who sends its deliveries: ${lack}` : `refuses every delivery: ${lack}`;
}

type Flows = readonly Pick<DeployedFlow, 'record' | 'loaded'>[];

/** Flows that other flows start, but that start no runs now: reported before a run needs them. */
export function closedFlows(flows: Flows) {
  return [...closedFailureFlows(flows), ...closedSubFlows(flows)];
}

function closedFailureFlows(flows: Flows) {
  return flows.flatMap(({ record: { id: callerId, name }, loaded }) => {
    const { onFailure } = loaded.manifest;
    const target = flows.find(({ record }) => record.id === onFailure)?.record;
    if (onFailure === undefined || (target !== undefined && startsRuns(target))) return [];
    const state = target === undefined ? 'not deployed' : target.isEnabled ? 'draining' : 'disabled';
    const message = `If a run of ${name} fails, nothing starts: its failure flow ${target?.name ?? onFailure} is ${state}`;
    return [
      { kind: 'failure_flow_closed' as const, message, link: `/flows/flows/${onFailure}`, callerId, about: name },
    ];
  });
}

/** A draining flow opens again soon, and runs in flight can still use it. */
function closedSubFlows(flows: Flows) {
  return flows.flatMap(({ record: { id: callerId, name }, loaded }) =>
    subFlowsOf(loaded.manifest.steps).flatMap((flowId) => {
      const target = flows.find(({ record }) => record.id === flowId)?.record;
      if (target?.isEnabled === true) return [];
      const state = target === undefined ? 'not deployed' : 'disabled';
      const message = `Runs of ${name} fail at steps that run ${target?.name ?? flowId}: that flow is ${state}`;
      return [{ kind: 'sub_flow_closed' as const, message, link: `/flows/flows/${flowId}`, callerId, about: name }];
    }),
  );
}
