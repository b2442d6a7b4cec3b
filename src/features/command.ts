import { checkPart } from '../commands/check.ts';
import { deployPart } from '../commands/deploy.ts';
import type { CommandPart } from '../commands/part.ts';
import { activityCommand } from './activity/command.ts';
import { alertsCommand } from './alerts/command.ts';
import { backupCommand } from './backup/command.ts';
import { bulkCommand } from './bulk/command.ts';
import { copyCommand } from './copy/command.ts';
import { deliveriesCommand } from './deliveries/command.ts';
import { deploysCommand } from './deploys/command.ts';
import { doctorCommand } from './doctor/command.ts';
import { evidenceCommand } from './evidence/command.ts';
import { flowsCommand } from './flows/command.ts';
import { forwardingCommand } from './forwarding/command.ts';
import { holdCommand } from './hold/command.ts';
import { importsCommand } from './imports/command.ts';
import { inferSchemaCommand } from './infer-schema/command.ts';
import { keysCommand } from './keys/command.ts';
import { mcpCommand } from './mcp/command.ts';
import { migrateCommand } from './migrate/command.ts';
import { newCommand } from './new/command.ts';
import { rehearsalCommand } from './rehearsal/command.ts';
import { reviewCommand } from './review/command.ts';
import { revisionsCommand } from './revisions/command.ts';
import { runsCommand } from './runs/command.ts';
import { schemaCommand } from './schema/command.ts';
import { schemesCommand } from './schemes/command.ts';
import { sendCommand } from './send/command.ts';
import { statusCommand } from './status/command.ts';
import { vectorsCommand } from './vectors/command.ts';

/** Parts of the command line besides `serve`, in the order of its help. */
export const commandParts: readonly CommandPart[] = [
  checkPart,
  rehearsalCommand,
  deployPart,
  revisionsCommand,
  flowsCommand,
  holdCommand,
  statusCommand,
  deliveriesCommand,
  runsCommand,
  bulkCommand,
  reviewCommand,
  copyCommand,
  newCommand,
  importsCommand,
  migrateCommand,
  sendCommand,
  forwardingCommand,
  evidenceCommand,
  mcpCommand,
  keysCommand,
  activityCommand,
  doctorCommand,
  alertsCommand,
  schemesCommand,
  vectorsCommand,
  schemaCommand,
  inferSchemaCommand,
  backupCommand,
  deploysCommand,
];
