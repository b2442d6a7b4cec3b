import { z } from 'zod';
import type { DeployOutcome, Finding } from '../../model/finding.ts';
import { id, integer, json } from './formats.ts';

const classSchema = z.enum(['safe', 'caution', 'breaking']);

export const findingSchema = z
  .object({
    rule: z.string(),
    class: classSchema,
    path: z.string(),
    before: json().optional(),
    after: json().optional(),
    message: z.string(),
    consequence: z.string(),
    advice: z.string().optional(),
    live: z.string().optional().describe('The runs that stand where the change matters.'),
    recipe: z
      .object({
        title: z.string(),
        steps: z.array(z.string()),
        patch: json().optional().describe('A JSON merge patch (RFC 7396) onto the new manifest.'),
        removableFrom: z.string().optional(),
      })
      .optional(),
  })
  .meta({ id: 'Finding' });

export const outcomeSchema = z
  .object({
    flowId: id(),
    name: z.string(),
    version: z.string(),
    action: z.enum(['created', 'updated', 'unchanged', 'refused']),
    class: classSchema.describe('The gravest among the findings; safe where there are none.'),
    revision: integer().nullable().describe('The one in force afterwards; null where the flow is not deployed.'),
    runsInFlight: integer(),
    findings: z.array(findingSchema).describe('The gravest first.'),
    refusal: z.string().nullable().describe('Why it was refused, and how to go on.'),
    warning: z
      .string()
      .optional()
      .describe('Why a manifest of the folder is not deployed: it is older than what was deployed over the API.'),
  })
  .meta({ id: 'DeployOutcome' });

export function findingView(finding: Finding): z.output<typeof findingSchema> {
  const { recipe, ...rest } = finding;
  return recipe === undefined ? rest : { ...rest, recipe: { ...recipe, steps: [...recipe.steps] } };
}

export function outcomeView(outcome: DeployOutcome): z.output<typeof outcomeSchema> {
  return { ...outcome, findings: outcome.findings.map(findingView) };
}
