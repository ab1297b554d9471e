//! Activations of a network on the device: read by name, and replaced while it runs.
//!
//! Commands of the forward pass stand in the order of the plan's operations, all on the main stream; a patch is a launch between
//! two of them. Values come from the host with their patch, or stay on the device as rows of another network's activation.

use super::buffer::{DType, StorageBuffer};
use super::error::CudaError;
use super::graph::{ABSENT, Argument, Command, Launch, MAIN};
use super::memory::DeviceMemory;
use super::runner::CudaRunner;
use crate::cpu::hooks::check_before_block;
use crate::error::EngineError;
use crate::model::hooks::{Moment, Patch, Place, PlannedPatch, Site, SiteKind, Values};
use crate::model::plan::Var;

/// Threads of a block, which copies a row.
const THREADS: usize = 256;

/// Patches of a runner, with the memory of their values.
#[derive(Default)]
pub(crate) struct DevicePatches {
    launches: Vec<(Moment, Command)>,
    /// Rows and values, held as long as the launches are.
    memory: Vec<DeviceMemory>,
}

/// Rows that take the place of others, both by their numbers in `[batch, rows]`.
struct Taken {
    /// `[row that is replaced, row of the values]`
    rows: Vec<[usize; 2]>,
    /// The values; none are zeros.
    values: Option<StorageBuffer>,
    /// Values from one row to the next.
    pitch: usize,
}

impl CudaRunner {
    /// An activation of the last forward pass, as [`Runner::activation`](crate::cpu::Runner::activation).
    pub fn activation(&self, site: Site) -> Result<Vec<f32>, CudaError> {
        let place = self.kept(site)?;
        let values = self.value(place.var)?;
        let rows = values.chunks_exact(place.width);
        let mut values: Vec<f32> = rows.flat_map(|row| row[place.columns.clone()].iter().copied()).collect();
        if let Some(base) = place.base {
            values.iter_mut().zip(self.value(base)?).for_each(|(v, b)| *v -= b);
        }
        Ok(values)
    }

    /// Where an activation lies that is still there after a pass.
    fn kept(&self, site: Site) -> Result<Place, CudaError> {
        let place = Place::of(self.graph(), site)?;
        if place.is_kept(self.graph()) {
            return Ok(place);
        }
        Err(CudaError::Shape(EngineError::Unsupported(format!(
            "{site} is not kept in inference; accepted: blocks.L.resid_pre, blocks.L.resid_post, blocks.L.out, or a network built \
             for training"
        ))))
    }

    /// From now on, forward passes take these values in place of what they compute, in this order; earlier patches end. A patch that
    /// would touch nothing is refused.
    pub fn patch(&mut self, patches: &[Patch]) -> Result<(), CudaError> {
        let mut planned = DevicePatches::default();
        for patch in patches {
            let patch = PlannedPatch::for_prompts(self.graph(), patch)?;
            let mut memory = self.memory();
            let command = self.patch_command(&mut memory, &patch)?;
            planned.launches.push((patch.moment, command));
            planned.memory.push(memory);
        }
        self.patches = planned;
        Ok(())
    }

    /// From now on, forward passes take rows of another network's activation in place of their own, beside patches that there are.
    /// `rows` are pairs of rows in `[batch, tokens]`, one's own and the other's.
    pub fn patch_from(
        &mut self,
        site: Site,
        other: &CudaRunner,
        rows: Vec<[usize; 2]>,
    ) -> Result<(), CudaError> {
        let mut memory = self.memory();
        let (moment, command) = self.command_from(&mut memory, site, other, rows)?;
        self.patches.launches.push((moment, command));
        self.patches.memory.push(memory);
        Ok(())
    }

    /// Writes values into the residual stream before a block, for [`CudaRunner::forward_from`] that block.
    pub fn write(&mut self, patch: &Patch) -> Result<(), CudaError> {
        check_before_block(patch)?;
        let planned = PlannedPatch::for_prompts(self.graph(), patch)?;
        let mut memory = self.memory();
        let command = self.patch_command(&mut memory, &planned)?;
        self.streams.enqueue(&[command])
    }

    /// Writes rows of another network's residual stream before a block into this one's; `rows` as in [`CudaRunner::patch_from`].
    pub fn write_from(
        &mut self,
        block: usize,
        other: &CudaRunner,
        rows: Vec<[usize; 2]>,
    ) -> Result<(), CudaError> {
        let mut memory = self.memory();
        let site = Site { block, kind: SiteKind::ResidPre };
        let (_, command) = self.command_from(&mut memory, site, other, rows)?;
        self.streams.enqueue(&[command])?;
        // the other network may go on
        self.lowered.memory.synchronize()
    }

    /// The forward pass from a block on: what came before is taken as the last passes left it.
    pub fn forward_from(&mut self, block: usize) -> Result<(), CudaError> {
        // that there is such a block
        Place::of(self.graph(), Site { block, kind: SiteKind::ResidPre })?;
        let first = self.graph().plan.layers[block - 1];
        self.forward_after(first)
    }

    /// The forward pass from an operation of the plan on.
    pub(crate) fn forward_after(&mut self, first: usize) -> Result<(), CudaError> {
        let starts = &self.lowered.starts;
        let place = |moment: Moment| match moment {
            Moment::Before(op) => (op, starts[op]),
            Moment::After(op) => (op, starts[op + 1]),
        };
        let mut patches: Vec<(usize, &Command)> = self
            .patches
            .launches
            .iter()
            .map(|(moment, command)| (place(*moment), command))
            .filter(|((op, _), _)| *op >= first)
            .map(|((_, at), command)| (at, command))
            .collect();
        // stable: patches of one place stay in order
        patches.sort_by_key(|(at, _)| *at);
        let mut from = starts[first];
        for (at, command) in patches {
            self.streams.enqueue(&self.lowered.forward[from..at])?;
            self.streams.enqueue(std::slice::from_ref(command))?;
            from = at;
        }
        self.streams.enqueue(&self.lowered.forward[from..])
    }

    /// Memory that is freed in the order of this runner's stream.
    fn memory(&self) -> DeviceMemory {
        self.lowered.memory.beside()
    }

    fn buffer(&self, var: Var) -> StorageBuffer {
        self.lowered.values[var.0].expect("computed by the plan")
    }

    fn patch_command(&self, memory: &mut DeviceMemory, patch: &PlannedPatch) -> Result<Command, CudaError> {
        let rows = patch.rows(self.graph().batch);
        let values = match &patch.values {
            Values::Zero => None,
            Values::PerPosition(values) | Values::PerPrompt(values) => {
                Some(StorageBuffer::Float(memory.filled("values of a patch", values)?))
            }
        };
        let pitch = patch.place.columns.len();
        self.launch_patch(memory, &patch.place, &Taken { rows, values, pitch })
    }

    fn command_from(
        &self,
        memory: &mut DeviceMemory,
        site: Site,
        other: &CudaRunner,
        rows: Vec<[usize; 2]>,
    ) -> Result<(Moment, Command), CudaError> {
        let (own, theirs) = (Place::of(self.graph(), site)?, other.kept(site)?);
        let refuse =
            |what: String| Err(CudaError::Shape(EngineError::Unsupported(format!("{site}: {what}"))));
        if own.base.is_some() {
            return refuse("it is computed nowhere, so that no row can be taken".into());
        }
        if own.width != theirs.width || self.precision() != other.precision() {
            return refuse(format!(
                "rows of {} values in {} from a network of {} in {}; accepted: the same",
                own.width,
                self.precision().name(),
                theirs.width,
                other.precision().name()
            ));
        }
        let [most, most_theirs] =
            [(self, &own), (other, &theirs)].map(|(of, place)| of.graph().batch * place.rows);
        if rows.is_empty() {
            return refuse("a patch of no row changes nothing; accepted: at least one".into());
        }
        if let Some([row, from]) = rows.iter().find(|[row, from]| *row >= most || *from >= most_theirs) {
            return refuse(format!(
                "row {row} from row {from}; accepted: rows below {most} and {most_theirs}"
            ));
        }
        // what the other has enqueued must be there before it is read on another stream
        other.lowered.memory.synchronize()?;
        let values = Some(other.buffer(theirs.var).part(own.columns.start..)?);
        let taken = Taken { rows, values, pitch: theirs.width };
        let command = self.launch_patch(memory, &own, &taken)?;
        Ok((PlannedPatch::moment(self.graph(), site, &own), command))
    }

    fn launch_patch(
        &self,
        memory: &mut DeviceMemory,
        place: &Place,
        taken: &Taken,
    ) -> Result<Command, CudaError> {
        let numbers: Vec<i32> = taken.rows.iter().flatten().map(|n| *n as i32).collect();
        let indices = memory.filled("rows of a patch", &numbers)?;
        let out = self.buffer(place.var);
        if let (DType::Float, Some(values)) = (out.dtype(), taken.values) {
            // A stream takes float32 alone.
            values.float()?;
        }
        let name = match (out.dtype(), taken.values.map_or(DType::Float, |values| values.dtype())) {
            (DType::Float, _) => "patch_stream",
            (_, DType::Float) => "patch_storage",
            _ => "patch_storage_from",
        };
        // How far the last of the rows reaches, of those replaced and of the values.
        let rows = |which: usize| taken.rows.iter().map(|row| row[which] + 1).max().unwrap_or(0);
        let reach = rows(0) * place.width;
        let values_reach = rows(1).saturating_sub(1) * taken.pitch + place.columns.len();
        let base = match place.base {
            Some(base) => self.buffer(base).float()?.pointer(reach)?,
            None => ABSENT,
        };
        let values = taken.values.map_or(Ok(ABSENT), |values| values.pointer(values_reach))?;
        let indices = indices.pointer(2 * taken.rows.len())?;
        let pointers = [out.pointer(reach)?, base, indices, values].map(Argument::from);
        let sizes = [place.width, place.columns.start, place.columns.len(), taken.pitch].map(Argument::from);
        let grid = [taken.rows.len(), THREADS];
        let launch = Launch::new(&self.lowered.kernels, name, grid, [pointers, sizes].concat())?;
        Ok(launch.on(MAIN))
    }
}
