import { checkPart } from '../commands/check.ts';
import { deliveriesPart } from '../commands/deliveries.ts';
import { deployPart, drainPart } from '../commands/deploy.ts';
import { flowsPart } from '../commands/flows.ts';
import { migratePart } from '../commands/migrate.ts';
import { newPart } from '../commands/new.ts';
import type { CommandPart } from '../commands/part.ts';
import { restorePart } from '../commands/restore.ts';
import { runsPart } from '../commands/runs.ts';
import { schemaPart } from '../commands/schema.ts';
import { schemesPart } from '../commands/schemes.ts';
import { sendPart } from '../commands/send.ts';
import { signalPart } from '../commands/signal.ts';
import { statusPart } from '../commands/status.ts';
import { switchPart } from '../commands/switch.ts';
import { whyPart } from '../commands/why.ts';
import { activityCommand } from './activity/command.ts';
import { alertsCommand } from './alerts/command.ts';
import { bulkCommand } from './bulk/command.ts';
import { copyCommand } from './copy/command.ts';
import { doctorCommand } from './doctor/command.ts';
import { evidenceCommand } from './evidence/command.ts';
import { forwardingCommand } from './forwarding/command.ts';
import { importsCommand } from './imports/command.ts';
import { inferSchemaCommand } from './infer-schema/command.ts';
import { keysCommand } from './keys/command.ts';
import { mcpCommand } from './mcp/command.ts';
import { rehearsalCommand } from './rehearsal/command.ts';
import { reviewCommand } from './review/command.ts';
import { vectorsCommand } from './vectors/command.ts';

/** What the command line is made of besides `serve`, in the order of its help. */
export const commandParts: readonly CommandPart[] = [
  checkPart,
  rehearsalCommand,
  deployPart,
  restorePart,
  drainPart,
  switchPart,
  flowsPart,
  statusPart,
  whyPart,
  deliveriesPart,
  runsPart,
  bulkCommand,
  signalPart,
  reviewCommand,
  copyCommand,
  newPart,
  importsCommand,
  migratePart,
  sendPart,
  forwardingCommand,
  evidenceCommand,
  mcpCommand,
  keysCommand,
  activityCommand,
  doctorCommand,
  alertsCommand,
  schemesPart,
  vectorsCommand,
  schemaPart,
  inferSchemaCommand,
];
